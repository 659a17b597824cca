import type { LogEvent } from '../api/models'

/** Events without those that repeat a newer one, and how many each of them stands for. */
export interface Grouped {
  events: LogEvent[]
  /** By the id of the newest, if there are several. */
  counts: Map<string, number>
}

/** Groups errors and warnings of one type and subject with the same text, of events that are sorted by time, newest first. */
export function grouped(events: LogEvent[]): Grouped {
  const newest = new Map<string, string>()
  const counts = new Map<string, number>()
  const kept = events.filter((event) => {
    if (event.severity === 'info') return true
    const key = JSON.stringify([event.event_type, event.subject, textOf(event.detail)])
    const first = newest.get(key)
    if (first === undefined) {
      newest.set(key, event.id)
      return true
    }
    counts.set(first, (counts.get(first) ?? 1) + 1)
    return false
  })
  return { events: kept, counts }
}

/** The text of an error without its numbers, which may count or be times. */
function textOf(detail: unknown): string {
  const { error, reason, message } = (detail ?? {}) as Record<string, unknown>
  const text = error ?? reason ?? message
  return (typeof text === 'string' ? text : JSON.stringify(detail)).replaceAll(/\d+/g, '0')
}
