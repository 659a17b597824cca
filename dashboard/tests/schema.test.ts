import { expect, test } from 'vitest'
import { around, curveOf, endOf, ofNamespace, rowCenter } from '../src/lib/layout'
import { graphOf, linksIn, namespaceOf, shortOf } from '../src/lib/schema'

const NOTE = {
  id: 'com.example.note',
  lexicon_type: 'record',
  target_collection: null,
  lexicon_json: {
    defs: {
      main: {
        type: 'record',
        description: 'A note.',
        record: {
          type: 'object',
          required: ['text'],
          properties: {
            text: { type: 'string' },
            createdAt: { type: 'string', format: 'datetime' },
            reply: { type: 'ref', ref: 'com.atproto.repo.strongRef' },
            about: { type: 'string', format: 'at-uri' },
            embed: { type: 'union', refs: ['#image', 'com.example.defs#link'] },
            tags: { type: 'array', items: { type: 'string' } },
            place: { type: 'object', properties: { at: { type: 'ref', ref: 'com.example.defs#point' } } },
          },
        },
      },
      image: { type: 'object', properties: { file: { type: 'blob' } } },
    },
  },
}
const DEFS = {
  id: 'com.example.defs',
  lexicon_type: 'object',
  target_collection: null,
  lexicon_json: { defs: { link: { type: 'object', properties: {} }, point: { type: 'string' } } },
}
const LIST = {
  id: 'com.example.listNotes',
  lexicon_type: 'query',
  target_collection: 'com.example.note',
  lexicon_json: {
    defs: {
      main: {
        type: 'query',
        parameters: { type: 'params', required: ['actor'], properties: { actor: { type: 'string', format: 'did' } } },
        output: { encoding: 'application/json', schema: { type: 'ref', ref: 'lex:com.example.defs#link' } },
      },
    },
  },
}
const graph = graphOf([NOTE, DEFS, LIST])

test('a lexicon has its fields with types, and its references', () => {
  const note = graph.lexicons.get(NOTE.id)
  expect(note?.description).toBe('A note.')
  expect(note?.groups.map(({ name }) => name)).toEqual(['record', '#image'])
  expect(note?.groups[0]?.fields.map(({ name, type, isRequired, isLink }) => [name, type, isRequired, isLink])).toEqual(
    [
      ['text', 'string', true, false],
      ['createdAt', 'datetime', false, false],
      ['reply', 'strongRef', false, true],
      ['about', 'at-uri', false, true],
      ['embed', 'union', false, false],
      ['tags', 'string[]', false, false],
      ['place', 'object', false, false],
      ['place.at', 'defs#point', false, false],
    ],
  )
  expect(graph.references).toEqual([
    { from: NOTE.id, to: 'com.atproto.repo.strongRef', at: 'record.reply', kind: 'ref' },
    { from: NOTE.id, to: DEFS.id, at: 'record.embed', kind: 'union' },
    { from: NOTE.id, to: DEFS.id, at: 'record.place.at', kind: 'ref' },
    { from: LIST.id, to: DEFS.id, at: 'output', kind: 'ref' },
    { from: LIST.id, to: NOTE.id, at: 'target_collection', kind: 'target' },
  ])
  expect([namespaceOf(NOTE.id), shortOf('a.b.c#main'), shortOf('a.b.c#d')]).toEqual(['com.example', 'c', 'c#d'])
})

test('documents of any shape are read', () => {
  const odd = [null, 7, {}, { defs: [] }, { defs: { main: null, a: 7, b: { type: 'object', properties: [] } } }]
  for (const lexicon_json of odd)
    expect(() => graphOf([{ ...NOTE, lexicon_json, target_collection: null }])).not.toThrow()
  let deep: unknown = { type: 'string' }
  for (let n = 0; n < 50; n++) deep = { type: 'object', properties: { a: deep } }
  const found = graphOf([{ ...NOTE, lexicon_json: { defs: { main: { type: 'record', record: deep } } } }])
  expect(found.lexicons.get(NOTE.id)?.groups[0]?.fields).toHaveLength(9)
})

test('a lexicon stands between its neighbours', () => {
  const { boxes, edges, width, height } = around(graph, NOTE.id)
  expect(boxes.map(({ id, kind }) => [id, kind])).toEqual([
    [LIST.id, 'query'],
    [NOTE.id, 'record'],
    ['com.atproto.repo.strongRef', undefined],
    [DEFS.id, 'object'],
  ])
  expect(edges.map(({ from, to, kind }) => [from, to, kind])).toEqual([
    [LIST.id, NOTE.id, 'target'],
    [NOTE.id, 'com.atproto.repo.strongRef', 'ref'],
    [NOTE.id, DEFS.id, 'ref'],
  ])
  for (const { x, y, height: own } of boxes) {
    expect(x >= 0 && y >= 0 && x < width && y + own < height).toBe(true)
  }
  const chosen = boxes.find(({ isChosen }) => isChosen)
  expect(chosen?.rows.map(({ text, type }) => [text, type]).slice(0, 3)).toEqual([
    ['record', ''],
    ['text', 'string'],
    ['createdAt?', 'datetime'],
  ])
  // The line begins at the row of the field.
  expect(edges[1]?.start[1]).toBe((chosen?.y ?? 0) + rowCenter(3))
  expect(around(graph, 'com.example.gone').boxes).toHaveLength(1)
})

test('a namespace has a column for methods, definitions and records', () => {
  const { boxes, edges } = ofNamespace(graph, 'com.example')
  expect(boxes.map(({ title }) => title)).toEqual(['listNotes', 'defs', 'note'])
  expect(new Set(boxes.map(({ x }) => x)).size).toBe(3)
  expect(edges.map(({ from, to }) => [from, to])).toEqual([
    [NOTE.id, DEFS.id],
    [LIST.id, DEFS.id],
    [LIST.id, NOTE.id],
  ])
  expect(edges.every((edge) => /^M[\d.]+ [\d.]+C/.test(curveOf(edge)))).toBe(true)
  expect(ofNamespace(graph, 'org.nothing').boxes).toEqual([])
  const lone = ['c', 'a', 'd', 'b'].map((name) => ({ ...DEFS, id: `org.lone.${name}` }))
  const { boxes: apart } = ofNamespace(graphOf(lone), 'org.lone')
  expect(apart.map(({ title, x, y }) => [title, x > 300, y > 30])).toEqual([
    ['a', false, false],
    ['d', false, true],
    ['b', true, false],
    ['c', true, false],
  ])
  expect(endOf('com.example.note', 6)).toBe('….note')
})

test('stored records say which collections they link', () => {
  const uri = (collection: string) => `at://did:plc:a/${collection}/1`
  const records = [
    {
      text: uri(NOTE.id).slice(5),
      reply: { uri: uri(NOTE.id), cid: 'x' },
      tags: [uri('com.example.tag'), 'at://did:plc:a'],
    },
    { reply: { uri: uri(NOTE.id) }, about: uri('com.other.thing') },
    null,
  ]
  const links = linksIn(NOTE.id, records)
  expect(links.map(({ at, to }) => [at, to])).toEqual([
    ['record.reply.uri', NOTE.id],
    ['record.tags', 'com.example.tag'],
    ['record.about', 'com.other.thing'],
  ])
  const { boxes, edges } = around({ ...graph, references: [...graph.references, ...links] }, NOTE.id)
  const chosen = boxes.find(({ isChosen }) => isChosen)
  const edge = edges.find(({ to }) => to === 'com.other.thing')
  // At the row of the field "about".
  expect(edge?.start[1]).toBe((chosen?.y ?? 0) + rowCenter(4))
})
