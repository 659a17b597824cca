import { expect, test } from 'vitest'
import { curlOf, parametersOf, callPathOf, typescriptOf } from '../src/lib/method'

const document = {
  id: 'com.example.list',
  defs: {
    main: {
      type: 'query',
      parameters: {
        required: ['actor'],
        properties: {
          limit: { type: 'integer', default: 50, minimum: 1, maximum: 100, description: 'How many.' },
          tags: { type: 'array', items: { type: 'string', enum: ['b', 'a'], knownValues: ['a', 'b'] } },
          actor: { type: 'string', format: 'at-identifier' },
          reverse: { type: 'boolean', default: false },
        },
      },
    },
  },
}

test('parameters have what the lexicon says, required ones first', () => {
  const all = parametersOf(document)
  expect(all.map(({ name }) => name)).toEqual(['actor', 'limit', 'tags', 'reverse'])
  expect(all[0]).toMatchObject({ type: 'string', isRequired: true, isList: false, standard: '' })
  expect(all[1]).toMatchObject({ type: 'integer', standard: '50', hint: 'How many. 1–100' })
  expect(all[2]).toMatchObject({ type: 'string', isList: true, values: ['b', 'a'] })
  expect(all[3]).toMatchObject({ type: 'boolean', standard: 'false' })
})

test('documents of any shape are read', () => {
  for (const odd of [null, {}, { defs: {} }, { defs: { main: { parameters: { required: 'x' } } } }, 'text'])
    expect(parametersOf(odd)).toEqual([])
  expect(parametersOf({ defs: { main: { parameters: { properties: { a: {} } } } } })).toMatchObject([
    { type: 'string' },
  ])
})

test('a call has its values in the query, each of a list', () => {
  expect(callPathOf('com.example.list', {})).toBe('/xrpc/com.example.list')
  expect(callPathOf('com.example.list', { a: [' x&y ', 'é'], b: [''], c: [] })).toBe(
    '/xrpc/com.example.list?a=x%26y&a=%C3%A9',
  )
})

test('code quotes what was typed', () => {
  expect(curlOf("http://a/?x='", '')).toBe(String.raw`curl 'http://a/?x='\'''`)
  expect(curlOf('http://a/', 'hvc_1')).toBe("curl -H 'x-client-key: hvc_1' 'http://a/'")
  expect(typescriptOf('http://a/"', 'hvc_1')).toContain(String.raw`fetch("http://a/\"", {`)
  expect(typescriptOf('http://a/', '')).not.toContain('headers')
})
