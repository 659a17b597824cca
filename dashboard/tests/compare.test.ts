import { expect, test } from 'vitest'
import { compare, exportOf } from '../src/lib/compare'

const lexicon = (id: string, lexicon_json: Record<string, unknown>, token_cost: number | null = null) => ({
  id,
  source: 'manual',
  target_collection: null,
  action: null,
  token_cost,
  lexicon_json,
})
const instance = (change: object) => ({
  format: 1,
  version: '0.1.0',
  did: 'did:web:a.example',
  url: 'https://a.example',
  exported_at: '2026-01-01T00:00:00Z',
  lexicons: [lexicon('com.example.a', { b: 1, a: [{ d: 1, c: 2 }] })],
  scripts: [{ id: 'xrpc.view:com.example.a', description: null, body: '{}' }],
  settings: { app_name: 'A' },
  ...change,
})

test('parts are the same whatever the order of their names', () => {
  const other = instance({ lexicons: [lexicon('com.example.a', { a: [{ c: 2, d: 1 }], b: 1 })] })
  expect(compare(instance({}), other)).toEqual({ differences: [], equal: 3 })
})

test('parts are in the file only, here only, or different', () => {
  const here = instance({
    lexicons: [lexicon('com.example.a', { b: 1, a: [{ d: 1, c: 2 }] }, 5), lexicon('com.example.b', {})],
    scripts: [{ id: 'job.run:x', description: 'Runs.', body: 'x' }],
    settings: { app_name: 'B' },
  })
  const { differences, equal } = compare(instance({}), here)
  expect(equal).toBe(0)
  expect(differences.map(({ kind, id, state }) => `${state} ${kind} ${id}`)).toEqual([
    'different lexicon com.example.a',
    'here lexicon com.example.b',
    'here script job.run:x',
    'different setting app_name',
    'file view xrpc.view:com.example.a',
  ])
  expect(differences[0]?.file).toContain('"token_cost": null')
  expect(differences[2]).toMatchObject({ file: '', here: 'Runs.\n\nx' })
})

test('a file that is no export is refused', () => {
  expect(exportOf(JSON.stringify(instance({})))?.url).toBe('https://a.example')
  for (const text of [
    '',
    '{',
    'null',
    '[]',
    '7',
    '{"format":2}',
    JSON.stringify(instance({ format: 2 })),
    '{"format":1,"lexicons":[],"scripts":[],"settings":null}',
  ])
    expect(exportOf(text)).toBeNull()
})
