import { expect, test } from 'vitest'
import { keepDraft, readDraft } from '../src/lib/drafts'

test('a draft is kept until it is removed, and one that cannot be read is none', () => {
  const map = new Map<string, string>()
  const storage = {
    getItem: (key: string) => map.get(key) ?? null,
    setItem: (key: string, value: string) => void map.set(key, value),
    removeItem: (key: string) => void map.delete(key),
  }
  expect(readDraft('a', storage)).toBeNull()
  keepDraft('a', { value: { body: 'new' }, base: '{"body":"old"}' }, storage)
  expect(readDraft('a', storage)).toEqual({ value: { body: 'new' }, base: '{"body":"old"}' })
  expect(readDraft('b', storage)).toBeNull()
  for (const broken of ['{', '1', '{"base":1}']) {
    map.set('belvedere.draft:a', broken)
    expect(readDraft('a', storage)).toBeNull()
  }
  keepDraft('a', null, storage)
  expect(map.size).toBe(0)
})

test('a full storage keeps no old draft', () => {
  const removed: string[] = []
  const full = () => {
    throw new DOMException('full', 'QuotaExceededError')
  }
  const storage = { getItem: () => null, setItem: full, removeItem: (key: string) => void removed.push(key) }
  keepDraft('a', { value: 'long', base: '""' }, storage)
  expect(removed).toEqual(['belvedere.draft:a'])
})
