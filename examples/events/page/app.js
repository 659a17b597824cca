import { call, el, list, nameOf, show } from '/lib.js'

const N = 'app.example.events.'
const person = (author) => el('a', { href: `#host/${author.did}` }, nameOf(author))
const when = (startsAt) => (startsAt ? new Date(startsAt).toLocaleString() : 'some time')

const event = ({ uri, name, startsAt, host, answers, mine }) => [
  el('a', { href: `#event/${uri}` }, name), el('br'),
  el('small', {}, when(startsAt), ', by ', host && person(host), answers === undefined ? '' : `, ${answers} answers`, mine ? ', yours too' : ''),
]

const events = (method, params) => list(async (cursor) => {
  const page = await call(N + method, { ...params, cursor })
  return { rows: page.events, cursor: page.cursor }
}, event)

show(document.querySelector('main'), {
  coming: () => events('getEvents', { from: new Date().toISOString() }),
  host: (actor) => events('getEventsOf', { actor }),
  event: async (uri) => {
    const found = await call(`${N}getEvent`, { uri })
    return [el('div', {}, event(found.event)), el('p', {}, found.event.description),
      el('ol', {}, found.answers.map(({ status, actor }) => el('li', {}, nameOf(actor), ` ${status.split('#').pop()}`)))]
  },
  mine: () => list(async (cursor) => {
    const page = await call(`${N}getMyEvents`, { cursor })
    return { rows: page.answers, cursor: page.cursor }
  }, ({ status, event: found }) => [...(found ? event(found) : ['An event that is gone']), ` (${status.split('#').pop()})`]),
  months: async () => el('ol', {}, (await call(`${N}getMonths`)).months.map(({ month, events: count }) => el('li', {}, `${month}: ${count}`))),
})
