import { expect, test } from 'vitest'
import type { LogEvent } from '../src/api/models'
import { grouped } from '../src/lib/grouped'

let next = 0
const event = (severity: LogEvent['severity'], subject: string, detail: unknown): LogEvent => ({
  id: String((next += 1)),
  event_type: 'script.error',
  severity,
  actor_did: null,
  subject,
  detail,
  created_at: '2026-01-01T00:00:00Z',
  address: null,
  authentication: null,
  api_key: null,
})

test('errors that differ in their numbers only are one', () => {
  const events = [
    event('error', 'a', { error: 'line 3: no luck', duration_ms: 1 }),
    event('info', 'a', { error: 'line 3: no luck' }),
    event('error', 'a', { error: 'line 14: no luck', duration_ms: 2 }),
    event('error', 'b', { error: 'line 3: no luck' }),
    event('warn', 'a', { count: 1 }),
    event('warn', 'a', { count: 2 }),
    event('info', 'a', { error: 'line 3: no luck' }),
    event('error', 'a', { error: 'line 3: no luck' }),
    event('error', 'a', null),
  ]
  const { events: kept, counts } = grouped(events)
  expect(kept.map(({ id }) => id)).toEqual(['1', '2', '4', '5', '7', '9'])
  expect([...counts]).toEqual([
    ['1', 3],
    ['5', 2],
  ])
})
