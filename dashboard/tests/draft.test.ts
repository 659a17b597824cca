import { expect, test } from 'vitest'
import { keepDraft, readDraft } from '../src/pages/scripts/draft'

test('a draft is kept until it is the saved text', () => {
  const map = new Map<string, string>()
  const storage = {
    getItem: (key: string) => map.get(key) ?? null,
    setItem: (key: string, value: string) => void map.set(key, value),
    removeItem: (key: string) => void map.delete(key),
  }
  expect(readDraft('job.run:a', storage)).toBeNull()
  keepDraft('job.run:a', { body: 'new', base: 'old' }, storage)
  expect(readDraft('job.run:a', storage)).toEqual({ body: 'new', base: 'old' })
  expect(readDraft('job.run:b', storage)).toBeNull()
  keepDraft('job.run:a', { body: 'new', base: 'new' }, storage)
  expect(map.size).toBe(0)
  for (const broken of ['{', '1', '{"body":1}']) {
    map.set('belvedere.script:job.run:a', broken)
    expect(readDraft('job.run:a', storage)).toBeNull()
  }
})
