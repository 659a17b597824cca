import { expect, test } from 'vitest'
import { actionOf, draftOf, uploadOf } from '../src/pages/lexicons/files'

const text = (type: string) => JSON.stringify({ lexicon: 1, id: 'com.example.a', defs: { main: { type } } })
const choices = { backfill: false, target: ' com.example.note ', action: 'create', cost: '5' } as const

test('what is no lexicon is noticed before it is sent', () => {
  expect(draftOf('a.json', '{').problem).toBe('syntax')
  expect(draftOf('a.json', '[]').problem).toBe('shape')
  expect(draftOf('a.json', 'null').problem).toBe('shape')
  expect(draftOf('a.json', text('record')).json).toEqual({ id: 'com.example.a', type: 'record' })
  expect(draftOf('', '{"id":"a","defs":{"main":{"type":3}}}').json).toEqual({ id: 'a', type: '' })
})

test('an upload has the choices that its type knows', () => {
  const upload = (type: string) => {
    const { lexicon_json: _, ...rest } = uploadOf(draftOf('', text(type)), choices)
    return rest
  }
  expect(upload('record')).toEqual({ backfill: false })
  expect(upload('query')).toEqual({ target_collection: 'com.example.note', token_cost: 5 })
  expect(upload('procedure')).toEqual({ target_collection: 'com.example.note', token_cost: 5, action: 'create' })
  expect(upload('object')).toEqual({})
  expect([actionOf('delete'), actionOf(null), actionOf('explode')]).toEqual(['delete', '', ''])
})
