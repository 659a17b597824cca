import { expect, test } from 'vitest'
import { newer } from '../src/pages/records/newer'

const record = (uri: string, indexed_at = '2026-01-01T00:00:00Z') => ({ uri, indexed_at })
const uris = (records: { uri: string }[]) => records.map(({ uri }) => uri)

test('records that follow a listed one are not new, though they have its time', () => {
  const page = ['a', 'b', 'c', 'd'].map((uri) => record(uri))
  expect(newer(page, [record('a'), record('b')])).toEqual({ fresh: [], isGap: false })
})

test('new records stand before the listed ones, also when the first of the list is gone', () => {
  const page = [record('new', '2026-01-02T00:00:00Z'), record('b'), record('c')]
  const { fresh, isGap } = newer(page, [record('a'), record('b')])
  expect([uris(fresh), isGap]).toEqual([['new'], false])
})

test('a record that was indexed again is not a second one, and hides none', () => {
  const page = [record('a', '2026-01-03T00:00:00Z'), record('new', '2026-01-02T00:00:00Z'), record('b')]
  expect(uris(newer(page, [record('a'), record('b')]).fresh)).toEqual(['new'])
})

test('without a listed record in the page there may be a gap', () => {
  expect(newer([record('c')], [record('a')]).isGap).toBe(true)
  expect(newer([record('c')], [])).toEqual({ fresh: [record('c')], isGap: true })
})
