import { expect, test } from 'vitest'
import { completionsOf } from '../src/components/completion'

const known = ['db.backend', 'db.query', 'env.KEY', 'log', 'record'].map((label) => ({ label }))
const labels = (word: string, text = '', isAsked = false) =>
  completionsOf(word, text, known, isAsked).map(({ label }) => label)

test('names are offered by their beginning, not by letters in between', () => {
  expect(labels('en')).toEqual(['end', 'env.KEY'])
  expect(labels('end')).toEqual([])
  expect(labels('db.')).toEqual(['db.backend', 'db.query'])
  expect(labels('string.gs')).toEqual(['string.gsub'])
  expect(labels('record.te')).toEqual([])
})

test('a single letter has no names unless they are asked for', () => {
  expect(labels('l')).toEqual([])
  expect(labels('l', '', true)).toEqual(['local', 'log'])
  expect(labels('', '', true)).toContain('coroutine.wrap')
})

test("a script's own names are offered", () => {
  const text =
    'local total, limit <const> = 1, 2\nlocal late\nfunction tally(tagged) end\nfor taken, told in pairs(t) do end'
  expect(labels('to', text)).toEqual(['tonumber', 'tostring', 'total', 'told'])
  expect(labels('li', text)).toEqual(['limit'])
  expect(labels('ta', text)).toEqual([
    'table',
    'table.concat',
    'table.insert',
    'table.move',
    'table.pack',
    'table.remove',
    'table.sort',
    'table.unpack',
    'tally',
    'tagged',
    'taken',
  ])
})
