import { expect, test } from 'vitest'
import { placeToReturn } from '../src/lib/returns'
import { forget, keep, savedOf } from '../src/lib/saved'

function storage(): Pick<Storage, 'getItem' | 'setItem'> {
  const map = new Map<string, string>()
  return { getItem: (key) => map.get(key) ?? null, setItem: (key, value) => void map.set(key, value) }
}

test('filters are kept by page and name', () => {
  const store = storage()
  keep('records', { name: 'b', query: { valid: 'false' } }, store)
  keep('records', { name: 'a', query: { valid: 'true' } }, store)
  keep('records', { name: 'b', query: { valid: '' } }, store)
  expect(savedOf('records', store)).toEqual([
    { name: 'a', query: { valid: 'true' } },
    { name: 'b', query: { valid: '' } },
  ])
  expect(savedOf('events', store)).toEqual([])
  expect(forget('records', 'a', store).map(({ name }) => name)).toEqual(['b'])
})

test('at most twenty filters are kept, and broken ones are dropped', () => {
  const store = storage()
  for (let at = 0; at < 25; at++) keep('records', { name: String(at).padStart(2, '0'), query: {} }, store)
  expect(savedOf('records', store)).toHaveLength(20)
  store.setItem('belvedere.filters.records', '[{"name":1},null,{"name":"x","query":{"a":2}}]')
  expect(savedOf('records', store)).toEqual([])
  store.setItem('belvedere.filters.records', 'no JSON')
  expect(savedOf('records', store)).toEqual([])
})

test('a login that failed leads back to where the first attempt began', () => {
  const store = storage()
  expect(placeToReturn('#/login?error=expired', store)).toBe('')
  expect(placeToReturn('#/records?collection=a', store)).toBe('#/records?collection=a')
  expect(placeToReturn('#/login?error=expired', store)).toBe('#/records?collection=a')
})
