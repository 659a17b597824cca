import { expect, test } from 'vitest'
import { bodyOf, callPathOf, curlOf, inputOf, parametersOf, typescriptOf, valuesOf } from '../src/lib/method'

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

const procedure = {
  defs: {
    main: { type: 'procedure', input: { encoding: 'application/json', schema: { type: 'ref', ref: '#input' } } },
    input: {
      type: 'object',
      required: ['text'],
      properties: {
        n: { type: 'integer' },
        done: { type: 'boolean' },
        tags: { type: 'array', items: { type: 'string' } },
        reply: { type: 'ref', ref: 'com.example.note#reply' },
        parts: { type: 'array', items: { type: 'union', refs: [] } },
        text: { type: 'string' },
      },
    },
  },
}

test('the input of a procedure has fields, of which those of other shapes are JSON', () => {
  const input = inputOf(procedure)
  expect(input?.fields.map(({ name, type, isList }) => [name, type, isList])).toEqual([
    ['text', 'string', false],
    ['n', 'integer', false],
    ['done', 'boolean', false],
    ['tags', 'string', true],
    ['reply', 'json', false],
    ['parts', 'json', false],
  ])
  expect(inputOf(document)).toBeNull()
  const elsewhere = { main: { input: { encoding: 'application/json', schema: { type: 'ref', ref: 'a.b.c#d' } } } }
  expect(inputOf({ defs: elsewhere })?.fields).toEqual([])
  expect(inputOf({ defs: { main: { input: { encoding: '*/*' } } } })).toEqual({ encoding: '*/*', fields: [] })
})

test('an input is what was typed, and back', () => {
  const { fields } = inputOf(procedure)!
  const values = { text: [' a '], n: ['7'], done: ['false'], tags: ['x', ' y '], reply: ['{"a": null}'], parts: [''] }
  const body = bodyOf(fields, values)
  expect(body).toEqual({ text: ' a ', n: 7, done: false, tags: ['x', 'y'], reply: { a: null } })
  expect(bodyOf(fields, valuesOf(fields, body)!)).toEqual(body)
  expect(bodyOf(fields, { n: ['seven'] })).toEqual({ n: 'seven' })
  expect(() => bodyOf(fields, { reply: ['{'] })).toThrow(SyntaxError)
  for (const other of [null, [], 'text', { unknown: 1 }, { tags: 'x' }, { text: ['a'] }])
    expect(valuesOf(fields, other)).toBeNull()
})

test('code quotes what was typed', () => {
  const code = (url: string, clientKey: string, body?: string) => ({ url, clientKey, body })
  expect(curlOf(code("http://a/?x='", ''))).toBe(String.raw`curl 'http://a/?x='\'''`)
  expect(curlOf(code('http://a/', 'hvc_1'))).toBe("curl -H 'x-client-key: hvc_1' 'http://a/'")
  expect(curlOf(code('http://a/', '', `{"a":"it's"}`))).toBe(
    String.raw`curl -X POST -H 'content-type: application/json' --data-raw '{"a":"it'\''s"}' 'http://a/'`,
  )
  expect(typescriptOf(code('http://a/"', 'hvc_1'))).toContain(String.raw`fetch("http://a/\"", {`)
  expect(typescriptOf(code('http://a/', ''))).not.toContain('headers')
  expect(curlOf(code('http://a/', '', ''))).toBe("curl -X POST 'http://a/'")
  expect(typescriptOf(code('http://a/', '', '{"a":1}'))).toContain('body: JSON.stringify({"a":1})')
})
