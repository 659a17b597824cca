// Ten questions of an operator, each answered within three clicks from the overview.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { logIn, open, openPage } from '../lib/browser.mjs'
import { LIST, NOTE, query, record } from '../lib/lexicons.mjs'
import { until } from '../lib/until.mjs'
import { browser, newAccount, newServer, once } from '../world.mjs'

const MAX_CLICKS = 3

/** A page whose clicks and submitted fields are counted. */
class Clicks {
  constructor(page) {
    this.page = page
    this.count = 0
  }

  async menu(name) {
    await this.click(this.page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true }))
  }

  async click(locator) {
    this.count += 1
    await locator.click()
  }

  /** Typing into a field and Enter count as one. */
  async enter(locator, text) {
    this.count += 1
    await locator.fill(text)
    await this.page.keyboard.press('Enter')
  }

  async see(text) {
    await this.page.locator('main').getByText(text).filter({ visible: true }).first().waitFor()
  }
}

/** A server with something to ask about, and a page of its owner. */
const prepared = once(async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  await server.upload(query(LIST), { target_collection: NOTE })
  const id = `record.index:${NOTE}`
  await server.api('POST', '/admin/scripts', { id, body: 'function handle() if record.text == "bad" then error("no luck") end return true end' })
  await alice.put(NOTE, 'good', { text: 'good' })
  await alice.put(NOTE, 'bad', { text: 'bad' })
  await until('the letter is there', async () => (await server.api('GET', '/admin/dead-letters/count')).count === 1)
  const client = await server.api('POST', '/admin/api-clients', {
    name: 'The busiest app', client_id_url: 'https://app.example/m.json', client_uri: 'https://app.example', redirect_uris: ['https://app.example/c'],
  })
  for (let n = 0; n < 5; n += 1) await fetch(`${server.url}/xrpc/${LIST}`, { headers: { 'x-client-key': client.client_key } })
  const page = await openPage(await browser(), server)
  await logIn(page, alice)
  return { page, alice }
})

const questions = {
  'Is the stream behind?': async (clicks) => clicks.see('Live'),
  'How many records are indexed?': async (clicks) => clicks.see('2'),
  'Which app uses most?': async (clicks) => {
    await clicks.menu('Statistics')
    await clicks.see('The busiest app')
  },
  'Why is this record not there?': async (clicks, alice) => {
    await clicks.click(clicks.page.getByRole('button', { name: /search/i }).first())
    await clicks.enter(clicks.page.getByRole('combobox'), alice.uri(NOTE, 'bad'))
    await clicks.see('no luck')
  },
  'Which scripts fail?': async (clicks) => {
    await clicks.menu('Dead letters')
    await clicks.see(/bad/)
  },
  'What does a script cost?': async (clicks) => {
    await clicks.menu('Scripts')
    await clicks.see('CPU time')
  },
  'What happened last?': async (clicks) => {
    await clicks.menu('Event log')
    await clicks.see('script.dead_lettered')
  },
  'Which records does a lexicon reject?': async (clicks) => {
    await clicks.menu('Collections')
    await clicks.see('Invalid')
  },
  'Which permissions does a user have?': async (clicks) => {
    await clicks.menu('Users')
    await clicks.see(/super user/i)
  },
  'How large is the database?': async (clicks) => {
    await clicks.menu('Database')
    await clicks.see(/[kMG]B/)
  },
}

for (const [question, answer] of Object.entries(questions)) {
  test(`${question} takes at most ${MAX_CLICKS} clicks`, async () => {
    const { page, alice } = await prepared()
    await open(page, '/')
    const clicks = new Clicks(page)
    await answer(clicks, alice)
    assert.ok(clicks.count <= MAX_CLICKS, `${clicks.count} clicks`)
  })
}
