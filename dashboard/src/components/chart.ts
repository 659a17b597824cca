/** A line of a chart: one value for each time, null where nothing was measured. */
export interface Series {
  label: string
  values: (number | null)[]
  /** The values of the period before, drawn dashed. */
  previous?: (number | null)[]
}

/** The data of a chart. */
export interface ChartData {
  /** Unix seconds, ascending. */
  times: number[]
  series: Series[]
  /** Writes a value of the y axis. */
  format: (value: number) => string
  /** The smallest end of the y axis, so that nothing looks like something. */
  atLeast: number
}

/** The colours of lines, as custom properties. More lines than colours begin again. */
export const COLOURS = ['--accent', '--code-number', '--ok', '--code-keyword', '--danger', '--warn']

/** The last value that was measured. */
export function lastOf(values: (number | null)[]): number | null {
  return values.findLast((value) => value !== null) ?? null
}

/** The largest and the last value of a line, for those who can't see it. */
export function summary({ values }: Series): { last: number | null; max: number | null } {
  const known = values.filter((value) => value !== null)
  return { last: lastOf(values), max: known.length ? Math.max(...known) : null }
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

/** The steps that the keyboard has chosen: where it began, and where it is. */
export interface Chosen {
  anchor: number
  at: number
}

/** The choice after a key; null for a key that chooses nothing. With Shift the choice grows from where it began. */
export function afterKey(key: string, isShift: boolean, chosen: Chosen | null, steps: number): Chosen | null {
  const last = steps - 1
  const from = chosen?.at ?? (key === 'ArrowRight' ? -1 : steps)
  const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last, PageUp: from - 10, PageDown: from + 10 }[
    key
  ]
  if (to === undefined || steps === 0) return null
  const at = Math.min(Math.max(to, 0), last)
  return { anchor: isShift && chosen ? chosen.anchor : at, at }
}
