import { expect, test } from 'vitest'
import { href, match, parsePlace, pathOf } from '../src/lib/route'

test('a place is read from the hash and written back', () => {
  const place = parsePlace('#/records?collection=com.example.note&valid=false')
  expect(place).toEqual({ path: '/records', query: { collection: 'com.example.note', valid: 'false' } })
  expect(href(place.path, place.query)).toBe('#/records?collection=com.example.note&valid=false')
  expect(parsePlace('')).toEqual({ path: '/', query: {} })
  expect(parsePlace('#records/')).toEqual({ path: '/records', query: {} })
})

test('empty parameters are left out, and special characters survive', () => {
  expect(href('/events', { subject: '', type: null, limit: 0 })).toBe('#/events?limit=0')
  const uri = 'at://did:plc:a/com.example.note/3k?&=#%'
  expect(parsePlace(href('/records/why', { uri })).query.uri).toBe(uri)
})

test('patterns give parameters', () => {
  expect(match('/lexicons/:id', '/lexicons/com.example.note')).toEqual({ id: 'com.example.note' })
  expect(match('/lexicons/:id', '/lexicons')).toBeNull()
  expect(match('/lexicons/:id', '/lexicons/')).toBeNull()
  expect(match('/a/:id', '/b/1')).toBeNull()
  const path = pathOf('/users/:id', { id: 'did:plc:a/b' })
  expect(match('/users/:id', path)).toEqual({ id: 'did:plc:a/b' })
  expect(match('/users/:id', '/users/%zz')).toEqual({ id: '%zz' })
})
