import { expect, test } from 'vitest'
import { difference, folded } from '../src/lib/diff'

const written = (before: string, after: string) =>
  difference(before, after)?.map(({ kind, text }) => ({ same: ' ', added: '+', removed: '-' })[kind] + text)

test('lines in both texts are the same, in their order', () => {
  expect(written('a\nb\nc', 'a\nx\nc')).toEqual([' a', '-b', '+x', ' c'])
  expect(written('a\nb\nc\nd', 'b\nd\ne')).toEqual(['-a', ' b', '-c', ' d', '+e'])
  expect(written('', 'a')).toEqual(['-', '+a'])
  expect(written('a', 'a')).toEqual([' a'])
  expect(written('a\na', 'a')).toEqual([' a', '-a'])
})

test('a difference is the texts again', () => {
  const [before, after] = ['one\ntwo\ntwo\nthree\n', 'zero\ntwo\nthree\nfour\n']
  const lines = difference(before, after) ?? []
  const of = (other: string) => lines.filter((line) => line.kind !== other).map((line) => line.text)
  expect([of('added').join('\n'), of('removed').join('\n')]).toEqual([before, after])
})

test('texts that are too long are not compared', () => {
  const long = (word: string) => Array.from({ length: 2_001 }, (_, at) => `${word}${at}`).join('\n')
  expect(difference(long('a'), long('b'))).toBeNull()
  expect(difference(long('a'), `${long('a')}\nmore`)).toHaveLength(2_002)
})

test('unchanged lines far from a change are folded', () => {
  const text = Array.from({ length: 20 }, (_, at) => `line ${at}`)
  const parts = folded(difference(text.join('\n'), [...text, 'new'].join('\n')) ?? [])
  expect(parts[0]).toEqual({ kind: 'folded', count: 17 })
  expect(parts.slice(1).map((part) => part.kind)).toEqual(['same', 'same', 'same', 'added'])
})
