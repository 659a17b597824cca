import { expect, test } from 'vitest'
import { ordered, tokens } from '../src/lib/json'

test('the tokens of a JSON text are the text again', () => {
  const text = JSON.stringify({ a: [1, -2.5, true, null], 'b"': '<img onerror=x> \\" : 1', c: {} }, null, 2)
  const found = tokens(text)
  expect(found.map((token) => token.text).join('')).toBe(text)
  const of = (kind: string) => found.filter((token) => token.kind === kind).map((token) => token.text)
  expect(of('key')).toEqual(['"a"', '"b\\""', '"c"'])
  expect(of('number')).toEqual(['1', '-2.5'])
  expect(of('word')).toEqual(['true', 'null'])
  expect(of('string')).toHaveLength(1)
})

test('values that are equal have the same ordered text', () => {
  expect(ordered({ b: [{ d: 1, c: 2 }], a: null })).toBe(ordered({ a: null, b: [{ c: 2, d: 1 }] }))
  expect(ordered([2, 1])).toBe('[\n  2,\n  1\n]')
})
