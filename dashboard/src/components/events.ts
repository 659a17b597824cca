import type { LogEvent } from '../api/models'
import { href, pathOf } from '../lib/route'
import { spacePage } from '../lib/spaces'
import { whyOf } from '../lib/uri'
import { events as t } from '../texts'

/** Characters of an event's summary: what fits into one or two lines. */
const MAX_LENGTH = 160

/** What an event is about in a line: its error or message if it has one, else its short values. */
export function eventSummary({ detail }: LogEvent): string {
  if (typeof detail !== 'object' || detail === null) return ''
  const values = detail as Record<string, unknown>
  for (const key of ['error', 'message', 'reason']) {
    if (typeof values[key] === 'string' && values[key]) return cut(values[key])
  }
  const parts = Object.entries(values)
    .filter(([, value]) => ['string', 'number', 'boolean'].includes(typeof value) && value !== '')
    .map(([key, value]) => `${key}: ${String(value)}`)
  return cut(parts.join(' · '))
}

/** The address of the client that caused an event, and the way in which it authenticated. */
export function sourceOf({ address, authentication, api_key }: LogEvent): string {
  const way = authentication && (api_key ? t.namedKey(api_key) : t.authentications[authentication])
  return [address, way].filter(Boolean).join(' · ')
}

/** Where a subject leads: a space, a record, a script or a lexicon. */
export function placeOf(subject: string): string | undefined {
  if (subject.startsWith('at://')) return spacePage(subject) ?? whyOf(subject)
  if (/^(record|xrpc|labeler|job)\.\w+:/.test(subject)) return href(pathOf('/scripts/:id', { id: subject }))
  if (/^[a-z][a-z0-9-]*(\.[a-zA-Z0-9-]+){2,}$/.test(subject)) return href(pathOf('/lexicons/:id', { id: subject }))
  return undefined
}

function cut(text: string): string {
  const line = text.replace(/\s+/g, ' ')
  return line.length > MAX_LENGTH ? `${line.slice(0, MAX_LENGTH)}…` : line
}
