import { expect, test } from 'vitest'
import { entriesOf } from '../src/components/shell/palette'
import type { PageEntry } from '../src/pages'

const load = () => Promise.reject(new Error('not loaded'))
const pages: PageEntry[] = [
  { path: '/records', title: 'Records', group: 'data', load },
  { path: '/events', title: 'Event log', group: 'operations', words: 'audit history', load },
]
const places = (text: string) => entriesOf(text, pages).map((entry) => entry.to)

test('pages are found by all words of a text', () => {
  expect(places('')).toEqual(['#/records', '#/events'])
  expect(places('log EVENT')).toEqual(['#/events'])
  expect(places('audit')).toEqual(['#/events'])
  expect(places('nothing')).toEqual([])
})

test('things and actions are found by their names', () => {
  const named = [
    { title: 'The busiest app', kind: 'Client', to: '#/clients/1', words: 'hvc_abc https://app.example/m.json' },
    { title: 'xrpc.query:com.example.list', kind: 'Script', to: '#/scripts/1', words: 'newest notes' },
  ]
  const actions = [{ title: 'Log out', kind: 'Action', to: 'log-out', words: 'sign out', run: () => Promise.resolve() }]
  const found = (text: string) => entriesOf(text, pages, actions, named).map((entry) => entry.to)
  expect(found('')).toEqual(['#/records', '#/events', 'log-out'])
  expect(found('sign')).toEqual(['log-out'])
  expect(found('hvc_ABC')).toEqual(['#/clients/1'])
  expect(found('client busiest')).toEqual(['#/clients/1'])
  expect(found('newest script')).toEqual(['#/scripts/1'])
  const lexicon = { title: 'com.example.note', kind: 'Lexicon', to: '#/lexicons/com.example.note', words: 'record' }
  expect(entriesOf('com.example.note', [], [], [lexicon]).map((entry) => entry.to)).toEqual([
    '#/records?collection=com.example.note',
    '#/lexicons/com.example.note',
  ])
  const many = Array.from({ length: 100 }, (_, n) => ({ title: `note ${n}`, kind: 'Script', to: `#/${n}`, words: '' }))
  expect(entriesOf('note', [], [], many)).toHaveLength(20)
})

test('the last entry searches records, for those who may read them', () => {
  const found = (text: string, mayRead: boolean) =>
    entriesOf(text, pages, [], [], mayRead).map((entry) => [entry.title, entry.to])
  expect(found('log', true)).toEqual([
    ['Event log', '#/events'],
    ['Search records for “log”', '#/records?text=log'],
  ])
  expect(found('log', false)).toHaveLength(1)
  expect(found(' ', true)).toHaveLength(2)
})

test('identifiers lead to what is known about them', () => {
  expect(places('at://did:plc:a/com.example.note/1')[0]).toMatch(/^#\/records\/why\?uri=at/)
  const space = '#/spaces/at%3A%2F%2Fdid%3Aplc%3Aa%2Fspace%2Fcom.example.group%2Fmain'
  expect(places('at://did:plc:a/space/com.example.group/main')).toEqual([space])
  expect(places('at://did:plc:a/space/com.example.group/main/did:plc:b/com.example.note/1')).toEqual([space])
  expect(places('at://did:plc:a/space/com.example.group')).toEqual([])
  expect(places('did:plc:abc')).toEqual(['#/events?subject=did%3Aplc%3Aabc'])
  expect(places(' com.example.note ')).toEqual(['#/records?collection=com.example.note', '#/lexicons/com.example.note'])
})
