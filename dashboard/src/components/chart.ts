/** A line of a chart: one value for each time, null where nothing was measured. */
export interface Series {
  label: string
  values: (number | null)[]
}

/** The colours of lines, as custom properties. More lines than colours begin again. */
export const COLOURS = ['--accent', '--code-number', '--ok', '--code-keyword', '--danger', '--warn']

/** The largest and the last value of a line, for those who can't see it. */
export function summary({ values }: Series): { last: number | null; max: number | null } {
  const known = values.filter((value) => value !== null)
  return { last: known.at(-1) ?? null, max: known.length ? Math.max(...known) : null }
}
