import { expect, test } from 'vitest'
import { emptyTrial, eventOf, paramsOf, parseTrigger, sourceOf } from '../src/lib/trigger'

test('a trigger has a kind and a subject', () => {
  expect(parseTrigger('record.index:com.example.note')).toEqual({ kind: 'record.index', subject: 'com.example.note' })
  expect(parseTrigger('broken')).toEqual({ kind: 'broken', subject: '' })
  expect(
    ['record.create', 'labeler.apply', 'xrpc.query', 'xrpc.subscription', 'xrpc.procedure', 'job.run'].map(sourceOf),
  ).toEqual(['record', 'label', 'query', 'subscription', 'procedure', 'job'])
})

test('parameters that are repeated are lists', () => {
  expect(paramsOf('limit=10\n tag = a\ntag=b\n\nq=x=y\nflag')).toEqual({
    limit: '10',
    tag: ['a', 'b'],
    q: 'x=y',
    flag: '',
  })
})

test('what was entered becomes an event of the trigger', () => {
  const json = (value: unknown) => JSON.parse(JSON.stringify(value)) as unknown
  const uri = 'at://did:plc:a/com.example.note/1'
  expect(json(eventOf('record', { ...emptyTrial, uri }))).toEqual({ type: 'record', uri })
  expect(json(eventOf('record', { ...emptyTrial, uri, action: 'update', input: '{"a":1}' }))).toEqual({
    type: 'record',
    uri,
    action: 'update',
    record: { a: 1 },
  })
  expect(json(eventOf('subscription', { ...emptyTrial, uri, params: 'level=2' }))).toEqual({
    type: 'change',
    uri,
    params: { level: '2' },
  })
  expect(eventOf('label', { ...emptyTrial, from: 'dead_letter', deadLetter: '12' })).toEqual({
    type: 'dead_letter',
    id: '12',
  })
  const asked = { ...emptyTrial, params: 'limit=1', caller: 'did:plc:a', from: 'dead_letter' as const }
  expect(json(eventOf('query', asked))).toEqual({ type: 'request', params: { limit: '1' }, caller_did: 'did:plc:a' })
  expect(json(eventOf('job', { ...emptyTrial, input: '[1]' }))).toEqual({ type: 'job', input: [1] })
  expect(() => eventOf('job', { ...emptyTrial, input: '{' })).toThrow(SyntaxError)
})
