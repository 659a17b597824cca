import { expect, test } from 'vitest'
import type { LogEvent } from '../src/api/models'
import { eventSummary, placeOf } from '../src/components/events'
import { preview } from '../src/pages/records/preview'

const event = (detail: unknown) => ({ detail }) as LogEvent

test('an event is summed up by its error, else by its short values', () => {
  expect(eventSummary(event({ error: 'nil  value\nhere', line: 3 }))).toBe('nil value here')
  expect(eventSummary(event({ revision: 1, source: 'manual', more: { a: 1 } }))).toBe('revision: 1 · source: manual')
  expect([event(null), event('text'), event({})].map(eventSummary)).toEqual(['', '', ''])
  expect(eventSummary(event({ error: 'x'.repeat(500) })).length).toBeLessThan(200)
})

test('a subject leads to what it names', () => {
  expect(placeOf('at://did:plc:a/com.example.note/1')).toMatch(/^#\/records\/why/)
  expect(placeOf('at://did:plc:a/space/com.example.group/main/did:plc:b/com.example.note/1')).toMatch(/^#\/spaces\/at/)
  expect(placeOf('at://did:plc:a/space/com.example.group/main')).toMatch(/^#\/spaces\/at/)
  expect(placeOf('record.index:com.example.note')).toBe('#/scripts/record.index%3Acom.example.note')
  expect(placeOf('com.example.note')).toBe('#/lexicons/com.example.note')
  expect([placeOf('did:plc:abc'), placeOf('a name'), placeOf('127.0.0.1')]).toEqual([undefined, undefined, undefined])
})

test('the preview of a record is one line of its values', () => {
  const record = { $type: 'com.example.note', text: 'a\nb', createdAt: 'x', tags: ['c'], none: null }
  expect(preview(record)).toBe('text: a b · tags: ["c"]')
  expect(preview({ text: 'x'.repeat(1000) }).length).toBeLessThan(250)
  expect([null, 'text', undefined].map(preview)).toEqual(['', '', ''])
})
