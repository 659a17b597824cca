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

const hour = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' })

/** A time on the x axis: the day where one begins or where labels are days apart, else the hour. `step`: seconds between labels. */
export function axisTime(seconds: number, step: number): string {
  const time = new Date(seconds * 1000)
  const text = hour.format(time)
  return step >= 86_400 || text === '00:00' ? day.format(time) : text
}

/** Pixels that the labels of the y axis need, at some seven a character. */
export function axisWidth(labels: string[] | null): number {
  return 22 + 7 * Math.max(3, ...(labels ?? []).map((label) => label.length))
}

/** Values below which a line shows each of them: a value without neighbours would not be seen. */
const MAX_SPARSE = 20

export function isSparse(values: (number | null)[]): boolean {
  return values.filter((value) => value !== null).length < MAX_SPARSE
}
