// The longest names that the network allows fit on a phone.
import { test } from 'node:test'
import { checkWidth, open, PHONE } from '../lib/browser.mjs'
import { record } from '../lib/lexicons.mjs'
import { until } from '../lib/until.mjs'
import { asUser, newAccount, newServer } from '../world.mjs'

/** Nearly as long as an NSID may be. */
const NSID = ['org', 'a'.repeat(63), 'b'.repeat(63), 'c'.repeat(60), 'n'.repeat(63)].join('.')
const RKEY = 'r'.repeat(512)
const DID = `did:web:${['d', 'e', 'f'].map((letter) => letter.repeat(60)).join('.')}.example.com`

test('the longest names fit on a phone', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NSID))
  const id = `record.index:${NSID}`
  await server.api('POST', '/admin/scripts', { id, body: 'function handle() if record.text == "bad" then error(string.rep("long", 99)) end return true end', description: 'd'.repeat(250) })
  await alice.put(NSID, RKEY, { text: 't'.repeat(2000), n: 1 })
  await alice.put(NSID, `${RKEY.slice(1)}s`, { text: 'bad' })
  await until('the letter is there', async () => (await server.api('GET', '/admin/dead-letters/count')).count === 1)
  const [letter] = (await server.api('GET', '/admin/dead-letters')).dead_letters
  const user = await server.api('POST', '/admin/users', { did: DID, permissions: ['stats:read'], unchecked: true })
  const path = 'p'.repeat(200)
  const client = await server.api('POST', '/admin/api-clients', {
    name: 'n'.repeat(100), client_id_url: `https://app.example/${path}.json`, client_uri: `https://app.example/${path}`, redirect_uris: [`https://app.example/${path}`],
  })
  await server.api('POST', '/admin/script-variables', { key: 'K'.repeat(100), value: 'v'.repeat(1000) })
  const grant = await server.api('POST', '/admin/linked-repos', { scopes: `atproto repo:${NSID}`, reason: 'w'.repeat(900), scripts: [id] })
  await server.api('POST', '/admin/backfill', { collection: NSID })
  const uri = encodeURIComponent(alice.uri(NSID, RKEY))
  await asUser(server, alice, { viewport: PHONE }, async (page) => {
    const places = [
      '/', '/collections', `/records?collection=${NSID}`, `/records?collection=${NSID}&uri=${uri}`, `/records/why?uri=${uri}`, '/lexicons',
      `/lexicons/${NSID}`, '/events', '/statistics', '/backfill', '/scripts', `/scripts/${encodeURIComponent(id)}`, '/script-variables', '/dead-letters',
      `/dead-letters/${letter.id}`, '/clients', `/clients/${client.id}`, '/users', `/users/${user.id}`, '/linked-repos', `/linked-repos/${grant.id}`,
      '/database', '/identity',
    ]
    const wide = []
    for (const place of places) {
      await open(page, place)
      await checkWidth(page, place).catch((error) => wide.push(error.message))
    }
    if (wide.length) throw new Error(wide.join('\n'))
  })
})
