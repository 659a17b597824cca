// A method's page shows its stream: the changes of a subscription, and the page of a live query.
import { checkAccessibility, checkWidth, DESKTOP, open, PHONE } from '../lib/browser.mjs'
import { LIST, NOTE, query, record } from '../lib/lexicons.mjs'
import { asUser, newAccount, onBoth } from '../world.mjs'

const WATCH = 'com.example.watchNotes'

const subscription = (id) => {
  const change = (required, more) => ({
    type: 'object',
    required: ['seq', 'uri', ...required],
    properties: { seq: { type: 'integer' }, uri: { type: 'string', format: 'at-uri' }, ...more },
  })
  const withRecord = change(['record'], { record: { type: 'unknown' } })
  return {
    lexicon: 1,
    id,
    defs: {
      main: { type: 'subscription', message: { schema: { type: 'union', refs: ['#create', '#update', '#delete'] } } },
      create: withRecord,
      update: withRecord,
      delete: change([], {}),
    },
  }
}

onBoth('the page of a method shows its stream', async (newServer) => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  for (const lexicon of [query(LIST), subscription(WATCH)]) {
    await server.api('POST', '/admin/lexicons', { lexicon_json: lexicon, target_collection: NOTE })
  }
  await asUser(server, alice, {}, async (page) => {
    const messages = page.getByRole('region', { name: 'Messages' })
    const connect = async (id) => {
      await open(page, `/lexicons/${id}`)
      await page.getByRole('tab', { name: 'Live' }).click()
      await page.getByRole('button', { name: 'Connect', exact: true }).click()
      await messages.getByText('Connected').waitFor()
    }
    await connect(WATCH)
    await alice.put(NOTE, 'first', { text: 'a first note' })
    await messages.getByText('#create').first().waitFor()
    await messages.getByText('a first note').first().waitFor()
    await alice.put(NOTE, 'first', { text: 'a changed note' })
    await messages.getByText('#update').first().waitFor()
    await alice.delete(NOTE, 'first')
    await messages.getByText('#delete').first().waitFor()
    await checkAccessibility(page, 'a stream')
    await page.setViewportSize(PHONE)
    await checkWidth(page, 'a stream')
    await page.setViewportSize(DESKTOP)
    await messages.getByRole('button', { name: 'Stop' }).click()
    await messages.getByText('The connection has ended').waitFor()

    await connect(LIST)
    await messages.getByText('#page').first().waitFor()
    await alice.put(NOTE, 'second', { text: 'a second note' })
    await messages.getByText('a second note').first().waitFor()
    await server.stop()
    await messages.getByText('The connection has ended: the server shuts down').waitFor()
  })
})
