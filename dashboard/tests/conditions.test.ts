import { expect, test } from 'vitest'
import { conditionText, namedText, parseConditions, parseNamed, parseSearch, searchText } from '../src/lib/conditions'

test('conditions are a path, an operator and a value', () => {
  expect(parseConditions('text contains hello and n >= 5')).toEqual([
    { field: 'text', op: 'LIKE', value: '%hello%' },
    { field: 'n', op: '>=', value: 5 },
  ])
  expect(parseConditions('a.b[0].c = true')).toEqual([{ field: 'a.b[0].c', op: '=', value: true }])
  expect(parseConditions('text = "5"')).toEqual([{ field: 'text', op: '=', value: '5' }])
  expect(parseConditions('n like 5%')).toEqual([{ field: 'n', op: 'LIKE', value: '5%' }])
  expect(parseConditions('text NOT LIKE a%')).toEqual([{ field: 'text', op: 'NOT LIKE', value: 'a%' }])
  expect(parseConditions('text contains 50%_')).toEqual([{ field: 'text', op: 'LIKE', value: '%50\\%\\_%' }])
  // While the next one is being typed.
  expect(parseConditions('n > 5 and')).toEqual([{ field: 'n', op: '>', value: 5 }])
  expect(parseConditions('  ')).toEqual([])
})

test('quotes hold text with "and" together', () => {
  expect(parseConditions('text = "salt and pepper" AND n != 1')).toEqual([
    { field: 'text', op: '=', value: 'salt and pepper' },
    { field: 'n', op: '!=', value: 1 },
  ])
  expect(parseConditions('text contains sand')).toEqual([{ field: 'text', op: 'LIKE', value: '%sand%' }])
})

test('conditions take lists, and no value', () => {
  expect(parseConditions('lang in ["en", "de and at"] and n between [1, 5] and reply missing and a exists')).toEqual([
    { field: 'lang', op: 'IN', value: ['en', 'de and at'] },
    { field: 'n', op: 'BETWEEN', value: [1, 5] },
    { field: 'reply', op: 'MISSING' },
    { field: 'a', op: 'EXISTS' },
  ])
  expect(parseConditions('text begins with "Re: "')).toEqual([{ field: 'text', op: 'PREFIX', value: 'Re: ' }])
  for (const text of ['n in 1, 2', 'n in []', 'n between [1]', 'n in [[1]]', 'n not in ["a"', 'n exists 1']) {
    expect(parseConditions(text), text).toBeNull()
  }
  expect(conditionText('n', 'between', [1, 5])).toBe('n between [1,5]')
  expect(conditionText('a.b', 'exists')).toBe('a.b exists')
  expect(parseConditions(conditionText('text', 'contains', 'a "b" and c'))).toEqual([
    { field: 'text', op: 'LIKE', value: '%a "b" and c%' },
  ])
})

test('what is no condition is not guessed', () => {
  for (const text of ['text', 'text hello', '= 5', "text' = 1", 'n >']) {
    expect(parseConditions(text), text).toBeNull()
  }
})

test('a search names an account, a record or both', () => {
  expect(parseNamed('at://did:plc:a/com.example.note/3k')).toEqual({
    collection: 'com.example.note',
    repo: 'did:plc:a',
    rkey: '3k',
  })
  expect(parseNamed('at://alice.test')).toEqual({ repo: 'alice.test', rkey: null })
  expect(parseNamed(' did:web:alice.test ')).toEqual({ repo: 'did:web:alice.test', rkey: null })
  expect(parseNamed('@alice.test')).toEqual({ repo: 'alice.test', rkey: null })
  expect(parseNamed('\u202a@alice.test\u202c')).toEqual({ repo: 'alice.test', rkey: null })
  expect(parseNamed('\ufeffdid:web:alice.test\u200b')).toEqual({ repo: 'did:web:alice.test', rkey: null })
  expect(parseNamed('3kabc')).toEqual({ repo: null, rkey: '3kabc' })
  // Refused by the server: a key has no slash.
  const inSpace = 'at://did:plc:a/space/com.example.group/main/did:plc:b/com.example.note/3k'
  for (const text of [inSpace, 'at://did:plc:a/space/com.example.group/main', 'at://did:plc:a/a.b.c/3k/x']) {
    expect(parseNamed(text)).toEqual({ repo: null, rkey: text })
    expect(namedText('com.example.note', '', text)).toBe(text)
  }
  expect(parseNamed('')).toEqual({ repo: null, rkey: null })
  expect(namedText('com.example.note', 'did:plc:a', '3k')).toBe('at://did:plc:a/com.example.note/3k')
  expect(namedText('com.example.note', '', '3k')).toBe('3k')
})

test('a search is an account, a record, or a text', () => {
  for (const [text, found] of [
    ['hello world', { repo: null, rkey: null, text: 'hello world' }],
    ['', { repo: null, rkey: null, text: null }],
    ['@alice.test', { repo: 'alice.test', rkey: null, text: null }],
    ['3mabcdefghijk', { repo: null, rkey: '3mabcdefghijk', text: null }],
    ['key:self', { repo: null, rkey: 'self', text: null }],
    ['"alice.test"', { repo: null, rkey: null, text: 'alice.test' }],
  ] as const) {
    expect(parseSearch(text), text).toEqual(found)
    const set = Object.fromEntries(Object.entries(found).filter(([, value]) => value !== null))
    expect(parseSearch(searchText('com.example.note', set)), text).toEqual(found)
  }
  expect(searchText('a.b.c', { repo: 'did:plc:a', rkey: 'x' })).toBe('at://did:plc:a/a.b.c/x')
})
