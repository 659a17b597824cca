import type { ProfilePlace } from '../api/models/scripts'

/** The costs by which a profile is drawn. */
export type Cost = 'instructions' | 'host_us'

/** A place of a flame graph. Positions and widths are shares of the whole. */
export interface Bar {
  place: ProfilePlace
  /** Calls above it. */
  depth: number
  left: number
  width: number
  /** The cost of the place and of all that it called. */
  total: number
}

/** Narrower bars can't be seen. */
const NARROWEST = 0.002

/** The flame graph of a profile: callers are above what they call. */
export function barsOf(places: ProfilePlace[], cost: Cost): Bar[] {
  const totals = places.map((place) => place[cost])
  const below: number[][] = places.map(() => [])
  const outermost: number[] = []
  // A place comes after its caller.
  for (let at = places.length - 1; at >= 0; at--) {
    const caller = places[at]?.caller ?? null
    if (caller === null) outermost.unshift(at)
    else {
      totals[caller] = (totals[caller] ?? 0) + (totals[at] ?? 0)
      below[caller]?.unshift(at)
    }
  }
  const all = outermost.reduce((sum, at) => sum + (totals[at] ?? 0), 0)
  const bars: Bar[] = []
  const waiting: { at: number; depth: number; left: number }[] = []
  const add = (list: number[], depth: number, left: number) => {
    for (const at of list) {
      const width = (totals[at] ?? 0) / all
      if (width >= NARROWEST) waiting.push({ at, depth, left })
      left += width
    }
  }
  if (all > 0) add(outermost, 0, 0)
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const { at, depth, left } = next
    const place = places[at]
    const total = totals[at] ?? 0
    if (!place) continue
    bars.push({ place, depth, left, width: total / all, total })
    add(below[at] ?? [], depth + 1, left)
  }
  return bars
}

/** “inner:3”, or without a line the function alone. */
export function nameOf({ function: name, line }: ProfilePlace): string {
  return line > 0 ? `${name}:${line}` : name
}
