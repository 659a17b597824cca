import { expect, test } from 'vitest'
import { columnsOf, csvOf, paramsOf, positionOf } from '../src/lib/sql'
import { addStatement, clearStatements, statementsOf } from '../src/lib/statements'

test('CSV quotes texts, and no spreadsheet runs them', () => {
  const rows = [
    { a: 'x,"y"', b: -1, c: { d: [1] } },
    { a: '=1+1', b: 2.5 },
    { a: '@x', b: null, c: 'two\r\nlines' },
  ]
  expect(csvOf(['a', 'b', 'c'], rows)).toBe(
    'a,b,c\r\n"x,""y""",-1,"{""d"":[1]}"\r\n\'=1+1,2.5,\r\n\'@x,,"two\r\nlines"\r\n',
  )
  expect(csvOf(['+a'], [])).toBe("'+a\r\n")
})

test('columns are those of the server and those of the rows, each once', () => {
  expect(columnsOf(['b', 'a', 'a'], [{ a: 1 }, { c: 2 }])).toEqual(['b', 'a', 'c'])
})

test('the position of an error is read from its text', () => {
  expect(positionOf('the SQL can’t be read: Expected: x at Line: 2, Column: 19')).toEqual({ line: 2, column: 19 })
  expect(positionOf('there is no column a')).toBeNull()
})

test('parameters are a JSON array', () => {
  expect(paramsOf(' ')).toEqual([])
  expect(paramsOf('["a", 1, null]')).toEqual(['a', 1, null])
  for (const text of ['{', '{}', '1', 'null']) expect(paramsOf(text)).toBeNull()
})

test('the last statements of a user are kept, each once', () => {
  const kept = new Map<string, string>()
  const store = {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
    removeItem: (key: string) => void kept.delete(key),
  }
  for (let n = 0; n < 60; n += 1) addStatement('did:a', { sql: `SELECT ${n % 55}`, params: '', at: n }, store)
  const all = statementsOf('did:a', store)
  expect(all).toHaveLength(50)
  expect(all.slice(0, 2).map(({ sql }) => sql)).toEqual(['SELECT 4', 'SELECT 3'])
  expect(statementsOf('did:b', store)).toEqual([])
  clearStatements('did:a', store)
  expect(statementsOf('did:a', store)).toEqual([])
  for (const odd of ['{', '{}', '[1, null, {"sql": 1}]']) {
    kept.set('belvedere.sql:did:a', odd)
    expect(statementsOf('did:a', store)).toEqual([])
  }
})
