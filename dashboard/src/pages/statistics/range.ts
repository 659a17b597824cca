/** A window that ends now. */
export interface Window {
  key: WindowKey
  seconds: number
}

export type WindowKey = (typeof WINDOWS)[number]['key']

export const WINDOWS = [
  { key: '1h', seconds: 3_600 },
  { key: '24h', seconds: 86_400 },
  { key: '7d', seconds: 7 * 86_400 },
  { key: '30d', seconds: 30 * 86_400 },
] as const

export const DAY = { key: '24h', seconds: 86_400 } as const

/** A window that ends now, or the time between two times: without the second one, until now. */
export type Range = Window | { key: 'custom'; from: string; until?: string }

/** The shortest range that can be selected, in seconds. */
const SHORTEST = 120

const isTime = (text: string | undefined): text is string => text !== undefined && !Number.isNaN(Date.parse(text))

/** The range that the parameters of the page name; the window without one, or with one that can't be read. */
export function rangeOf({ from, until }: Record<string, string>, window: Window): Range {
  if (!isTime(from)) return window
  if (!isTime(until)) return { key: 'custom', from }
  return Date.parse(from) < Date.parse(until) ? { key: 'custom', from, until } : window
}

export function windowOf({ window }: Record<string, string>): Window {
  return WINDOWS.find(({ key }) => key === window) ?? DAY
}

/** The times of a range, for the server. */
export function timesOf(range: Range, now: number): { from: string; until?: string } {
  if (range.key !== 'custom') return { from: new Date(now - range.seconds * 1000).toISOString() }
  return range.until === undefined ? { from: range.from } : { from: range.from, until: range.until }
}

/** The range between two selected times, in Unix seconds: to the second, and not too short. */
export function selectedRange(from: number, until: number): { from: string; until: string } {
  const missing = Math.max(0, SHORTEST - (until - from)) / 2
  const text = (seconds: number) => new Date(Math.round(seconds) * 1000).toISOString().replace('.000Z', 'Z')
  return { from: text(from - missing), until: text(until + missing) }
}
