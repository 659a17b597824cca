import { expect, test } from 'vitest'
import { sqlCompletionsOf, statementAt } from '../src/components/sql-completion'

const tables = [
  { name: 'accounts', columns: ['did', 'handle'], own: false },
  { name: 'records', columns: ['uri', 'did', 'record'], own: false },
  { name: 'script_seen', columns: ['uri', 'n'], own: true },
]
/** The names for the place that `|` marks. */
function labels(marked: string, isAsked = false): string[] {
  const at = marked.indexOf('|')
  return sqlCompletionsOf(marked.replace('|', ''), at, tables, isAsked).found.map(({ label }) => label)
}

test('names of columns come before tables, and keywords last', () => {
  expect(labels('SELECT re| FROM records')).toEqual(['record', 'records', 'replace', 'RECURSIVE'])
  expect(labels('SELECT ha|')).toEqual(['handle', 'HAVING'])
  expect(labels('SELECT ha| FROM records')).toEqual(['HAVING'])
  expect(labels('SELECT did FROM accounts WHERE han|')).toEqual(['handle'])
})

test('a finished word and a single letter offer nothing, unless they are asked for', () => {
  expect(labels('SELECT record| FROM records')).toEqual(['records'])
  expect(labels('select|')).toEqual([])
  expect(labels('SELECT d|')).toEqual([])
  expect(labels('SELECT d| FROM records', true)).toEqual(['did', 'DESC', 'DISTINCT'])
  expect(labels('SELECT | FROM script_seen', true).slice(0, 4)).toEqual(['uri', 'n', 'accounts', 'records'])
})

test('after FROM and JOIN there are only tables', () => {
  expect(labels('SELECT 1 FROM re|')).toEqual(['records'])
  expect(labels('SELECT 1 FROM |', true)).toEqual(['accounts', 'records', 'script_seen'])
  expect(labels('SELECT 1 FROM records r LEFT JOIN sc|')).toEqual(['script_seen'])
})

test('a name before the dot is that of a table or the one that the statement gives it', () => {
  expect(labels('SELECT r.| FROM records AS r')).toEqual(['uri', 'did', 'record'])
  expect(labels('SELECT A.h| FROM records r, accounts a WHERE 1')).toEqual(['handle'])
  expect(labels('SELECT records.re| FROM records WHERE')).toEqual(['record'])
  expect(labels('SELECT x.| FROM records r')).toEqual([])
  expect(labels('SELECT rec.| FROM (SELECT uri FROM records rec) t')).toEqual(['uri', 'did', 'record'])
})

test('the word that a name replaces begins after the dot', () => {
  expect(sqlCompletionsOf('SELECT r.re FROM records r', 11, tables, false).word).toBe('re')
  expect(sqlCompletionsOf('SELECT re', 9, tables, false).word).toBe('re')
})

test('a statement in Lua is the first argument of db.raw', () => {
  const inLua = (marked: string) => {
    const found = statementAt(marked.replace('|', ''), marked.indexOf('|'))
    return found && `${found.sql.slice(0, found.at)}|${found.sql.slice(found.at)}`
  }
  expect(inLua('db.raw([[SELECT r| FROM records]], { 1 })')).toBe('SELECT r| FROM records')
  expect(inLua('local rows = db.raw("SELECT |")')).toBe('SELECT |')
  expect(inLua("db.raw([[\nSELECT 'a',\n |]])")).toBe("\nSELECT 'a',\n |")
  expect(inLua('db.raw([[SELECT 1]], { "a|" })')).toBeNull()
  expect(inLua('db.raw("SELECT 1", "a|")')).toBeNull()
  expect(inLua('log("SELECT |")')).toBeNull()
  expect(inLua('db.raw([[SELECT 1|')).toBe('SELECT 1|')
})
