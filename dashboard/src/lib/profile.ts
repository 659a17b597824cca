import type { ProfilePlace, RunProfile } from '../api/models/scripts'
import { profile as t } from '../texts'
import { compact, count, duration } from './format'

/** A note beside a line. */
export interface LineNote {
  /** Counted from 1. */
  line: number
  text: string
  title: string
  /** From 0 to 3. */
  heat: number
}

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

/** A time of a profile, in microseconds. */
export function timeOf(us: number): string {
  return us > 0 && us < 1000 ? `${us} µs` : duration(us / 1e6)
}

/** The costs of the lines of a script, as notes beside them. The line with the greatest share of instructions or of waiting is the hottest. */
export function notesOf({ lines }: RunProfile, trigger: string): LineNote[] {
  const own = lines.filter(({ file, instructions, host_calls: calls }) => file === trigger && instructions + calls > 0)
  const most = { instructions: 0, host_us: 0 }
  for (const line of own) {
    most.instructions = Math.max(most.instructions, line.instructions)
    most.host_us = Math.max(most.host_us, line.host_us)
  }
  return own.map(({ line, instructions, host_calls: calls, rows, host_us: us }) => {
    const share = Math.max(instructions / (most.instructions || 1), us / (most.host_us || 1))
    const wait = calls > 0 ? timeOf(us) : ''
    return {
      line,
      text: wait ? `${compact(instructions)} · ${wait}` : compact(instructions),
      title: [t.instructionsOf(count(instructions)), ...(wait ? [t.waited(count(calls), count(rows), wait)] : [])].join(
        ', ',
      ),
      heat: share > 0.66 ? 3 : share > 0.33 ? 2 : share > 0.05 ? 1 : 0,
    }
  })
}
