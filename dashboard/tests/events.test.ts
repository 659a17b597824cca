import { expect, test } from 'vitest'
import type { LogEvent } from '../src/api/models'
import { eventSummary, placeOf, sourceOf } from '../src/components/events'
import { isAddress } from '../src/lib/address'
import { preview } from '../src/pages/records/preview'

const event = (detail: unknown) => ({ detail }) as LogEvent

test('an event is summed up by its error, else by its short values', () => {
  expect(eventSummary(event({ error: 'nil  value\nhere', line: 3 }))).toBe('nil value here')
  expect(eventSummary(event({ revision: 1, source: 'manual', more: { a: 1 } }))).toBe('revision: 1 · source: manual')
  expect([event(null), event('text'), event({})].map(eventSummary)).toEqual(['', '', ''])
  expect(eventSummary(event({ error: 'x'.repeat(500) })).length).toBeLessThan(200)
})

test('an event says where its request came from', () => {
  const from = (fields: Partial<LogEvent>) => sourceOf({ address: '192.0.2.1', ...fields } as LogEvent)
  expect(from({ authentication: 'api_key', api_key: 'deploy' })).toBe('192.0.2.1 · API key “deploy”')
  expect(from({ authentication: 'session', api_key: null })).toBe('192.0.2.1 · dashboard')
  expect(from({ authentication: null, api_key: null })).toBe('192.0.2.1')
})

test('an address is a condition when it is complete', () => {
  expect(['203.0.113.7', '2001:db8::1', '::1', '::ffff:192.0.2.1'].map(isAddress)).toEqual([true, true, true, true])
  expect(['', '203.0.113', '203.0.113.', '203.0.113.256', '2001:', 'localhost'].filter(isAddress)).toEqual([])
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
