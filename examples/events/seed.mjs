// The accounts and records of the example: events of this year and the next, and who comes.
import { ref } from '../lib/network.mjs'

const EVENT = 'community.lexicon.calendar.event'
const RSVP = 'community.lexicon.calendar.rsvp'
export const NAMES = ['alice', 'bob', 'carol', 'dave']

export async function seed(network) {
  for (const name of NAMES) {
    await network.account(name)
    await network.put(name, 'app.bsky.actor.profile', 'self', { displayName: name[0].toUpperCase() + name.slice(1) })
  }
  const event = (name, rkey, title, startsAt, mode = `${EVENT}#inperson`) =>
    network.put(name, EVENT, rkey, { name: title, startsAt, mode, createdAt: '2026-01-01T09:00:00Z' })
  const answer = (name, host, to, status) =>
    network.put(name, RSVP, to, { subject: ref(host, EVENT, to), status: `${RSVP}#${status}` })

  for (let month = 1; month <= 12; month++) {
    const day = `2027-${String(month).padStart(2, '0')}`
    await event('alice', `walk${month}`, `Walk of month ${month}`, `${day}-05T10:00:00.000Z`)
    if (month % 3 === 0) await event('bob', `talk${month}`, `Talk of month ${month}`, `${day}-20T18:00:00.000Z`, `${EVENT}#virtual`)
  }
  await event('carol', 'past', 'Picnic of last year', '2026-06-01T12:00:00.000Z')

  for (const name of ['bob', 'carol']) await answer(name, 'alice', 'walk3', 'going')
  await answer('dave', 'alice', 'walk3', 'interested')
  await answer('dave', 'bob', 'talk3', 'going')
}
