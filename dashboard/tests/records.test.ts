import { expect, test } from 'vitest'
import { inBatches } from '../src/pages/records/bulk'
import { columnsOf, csvColumns, keepColumns, moved } from '../src/pages/records/columns'
import { counter } from '../src/pages/records/counter'
import { at, isPath, operatorsOf, valueOf } from '../src/pages/records/fields'
import { directionOf, nextSort, sortName } from '../src/pages/records/sorting'

const bytes = (text: string) => new TextEncoder().encode(text)

test('records are counted while a file arrives in parts', () => {
  const table = counter('csv')
  expect(table.records).toBe(0)
  for (const part of ['uri,text\r', '\na,"one\r\ntwo"', '"\nx"', '\r\n', 'b,plain\r\nc,']) table.add(bytes(part))
  expect(table.records).toBe(2)
  const lines = counter('jsonl')
  lines.add(bytes('{"a":"\\""}\n{"b":1}\n{"c"'))
  expect(lines.records).toBe(2)
})

test('columns are kept by collection, and moved', () => {
  const map = new Map<string, string>()
  const store = {
    getItem: (key: string) => map.get(key) ?? null,
    setItem: (key: string, value: string) => void map.set(key, value),
    removeItem: (key: string) => void map.delete(key),
  }
  const standard = columnsOf('a.b.c', store)
  expect(standard).toEqual(['@record', '@content', '@state', '@indexed'])
  keepColumns('a.b.c', ['text', '@state'], store)
  expect([columnsOf('a.b.c', store), columnsOf('a.b.d', store)]).toEqual([['text', '@state'], standard])
  keepColumns('a.b.c', [], store)
  expect(columnsOf('a.b.c', store)).toEqual(standard)
  for (const bad of ['no JSON', '{}', '[1]', '[]']) {
    map.set('belvedere.columns.a.b.c', bad)
    expect(columnsOf('a.b.c', store), bad).toEqual(standard)
  }
  expect(moved(['a', 'b', 'c'], 'b', -1)).toEqual(['b', 'a', 'c'])
  expect(moved(['a', 'b', 'c'], 'c', 1)).toEqual(['a', 'b', 'c'])
})

test('records change in batches, each with its outcome', async () => {
  const ids = Array.from({ length: 250 }, (_, n) => String(n))
  const sizes: number[] = []
  const failures = await inBatches(
    ids,
    (batch) => {
      sizes.push(batch.length)
      if (sizes.length === 3) return Promise.reject(new Error('busy'))
      return Promise.resolve({
        results: batch.map((id) => (id === '7' ? { id, ok: false, error: 'no' } : { id, ok: true })),
      })
    },
    () => undefined,
  )
  expect(sizes).toEqual([100, 100, 50])
  expect([failures.length, failures[0], failures[50]]).toEqual([
    51,
    { id: '7', error: 'no' },
    { id: '249', error: 'busy' },
  ])
  await expect(
    inBatches(
      ['a'],
      () => Promise.reject(new Error('no')),
      () => undefined,
    ),
  ).rejects.toThrow('no')
})

test('a field has the operators and values of its type', () => {
  const field = (type: string, more = {}) =>
    ({ path: 'a', type, format: null, values: [], required: false, indexes: [], ...more }) as never
  const ops = (of: never | undefined) => operatorsOf(of).map(({ op }) => op)
  expect(ops(field('boolean'))).toEqual(['=', '!=', 'exists', 'missing'])
  expect(ops(field('array'))).toEqual(['exists', 'missing'])
  expect(ops(field('string'))[0]).toBe('contains')
  expect(ops(field('string', { format: 'datetime' }))[0]).toBe('<')
  expect(ops(undefined)).toContain('between')
  expect([valueOf('5', field('string')), valueOf('5', field('integer')), valueOf('5', undefined)]).toEqual(['5', 5, 5])
  expect([valueOf('x', field('integer')), valueOf(' ', undefined), valueOf('true', field('boolean'))]).toEqual([
    null,
    null,
    true,
  ])
  expect([isPath('a.b[0].c'), isPath('a b'), isPath('')]).toEqual([true, false, false])
  expect([at({ a: { b: 1 } }, 'a.b'), at({ a: 1 }, 'a.b'), at(null, 'a')]).toEqual([1, undefined, undefined])
})

test('the columns of a table are those of the page that are fields', () => {
  expect(csvColumns(['@record', '@content', '@state', '@indexed'])).toEqual([])
  expect(csvColumns(['@content', 'text', '@indexed', 'did'])).toEqual(['uri', 'text', 'indexedAt', 'record.did'])
})

test('a click on a head orders by the column, and another one turns the order', () => {
  const field = (path: string, type: string) => ({ path, type, format: null, values: [], indexes: [] }) as never
  const fields = [field('n', 'integer'), field('tags', 'array'), field('a-b', 'string')]
  expect(['n', 'tags', 'a-b', '@record', '@indexed'].map((column) => sortName(column, fields))).toEqual([
    'n',
    null,
    null,
    null,
    'indexed_at',
  ])
  expect([directionOf('n', '', false), directionOf('n', 'n', false), directionOf('n', '-n', false)]).toEqual([
    'none',
    'ascending',
    'descending',
  ])
  // Without an order the newest are first, and of a search the best matches.
  expect([directionOf('indexed_at', '', false), directionOf('indexed_at', '', true)]).toEqual(['descending', 'none'])
  expect([nextSort('n', 'none'), nextSort('n', 'ascending'), nextSort('n', 'descending')]).toEqual(['n', '-n', 'n'])
  expect([nextSort('indexed_at', 'descending'), nextSort('indexed_at', 'ascending')]).toEqual(['indexed_at', ''])
})
