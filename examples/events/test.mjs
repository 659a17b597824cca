import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { App, eventually } from '../lib/app.mjs'
import { did, ref, uri } from '../lib/network.mjs'

const N = 'app.example.events.'
const EVENT = 'community.lexicon.calendar.event'
const RSVP = 'community.lexicon.calendar.rsvp'
let app

before(async () => { app = await App.start('events') })
after(() => app?.stop())

const names = (page) => page.events.map((event) => event.name)

test('events of a range of time, the next one first', async () => {
  const march = await app.call(`${N}getEvents`, { from: '2027-03-01T00:00:00Z', to: '2027-04-01T00:00:00Z' })
  assert.deepEqual(names(march), ['Walk of month 3', 'Talk of month 3'])
  const virtual = await app.call(`${N}getEvents`, { from: '2027-01-01T00:00:00Z', mode: `${EVENT}#virtual` })
  assert.deepEqual(names(virtual), [3, 6, 9, 12].map((month) => `Talk of month ${month}`))
  assert.equal(names(await app.call(`${N}getEvents`, { limit: 1 }))[0], 'Picnic of last year', 'all of them without a time')
})

test('pages stay stable while an event is added', async () => {
  const first = await app.call(`${N}getEvents`, { from: '2027-01-01T00:00:00Z', limit: 8 })
  await app.network.put('carol', EVENT, 'early', { name: 'Early one', startsAt: '2027-01-02T00:00:00.000Z', createdAt: '2026-01-01T09:00:00Z' })
  await eventually('it is indexed', async () => (await app.call(`${N}getEventsOf`, { actor: did('carol') })).events.length === 2)
  const second = await app.call(`${N}getEvents`, { from: '2027-01-01T00:00:00Z', limit: 100, cursor: first.cursor })
  assert.equal(new Set([...names(first), ...names(second)]).size, 16)
  await app.network.delete('carol', EVENT, 'early')
})

test('an event has its host, its answers and the answer of the caller', async () => {
  const { event, answers } = await app.call(`${N}getEvent`, { uri: uri('alice', EVENT, 'walk3') }, 'bob')
  assert.equal(event.host.displayName, 'Alice')
  assert.equal(event.answers, 3)
  assert.equal(event.mine, uri('bob', RSVP, 'walk3'))
  assert.equal(answers.length, 3)
  const going = await app.call(`${N}getAnswers`, { uri: event.uri, status: `${RSVP}#going` })
  assert.deepEqual(going.answers.map((answer) => answer.actor.displayName).sort(), ['Bob', 'Carol'])
})

test('the events of a host and of the caller', async () => {
  assert.equal(names(await app.call(`${N}getEventsOf`, { actor: 'bob.example.com' }))[0], 'Talk of month 12')
  const { answers } = await app.call(`${N}getMyEvents`, {}, 'dave')
  assert.deepEqual(answers.map((answer) => answer.event.name).sort(), ['Talk of month 3', 'Walk of month 3'])
  await assert.rejects(app.call(`${N}getMyEvents`, {}), { status: 401 })
})

test('an answer changes, and ends with the event', async () => {
  const mine = async () => (await app.call(`${N}getMyEvents`, {}, 'carol')).answers
  await app.network.put('carol', RSVP, 'walk3', { subject: ref('alice', EVENT, 'walk3'), status: `${RSVP}#notgoing` })
  await eventually('it is changed', async () => (await mine())[0].status === `${RSVP}#notgoing`)
  await app.network.delete('alice', EVENT, 'walk3')
  await eventually('the event is gone', async () => (await mine())[0].event === undefined)
})

test('events are counted by month', async () => {
  const { months } = await app.call(`${N}getMonths`, {})
  assert.deepEqual(months.find((each) => each.month === '2027-06'), { month: '2027-06', events: 2 })
})
