// The first person who logs in claims the server, and adds a lexicon from the network.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { consent, open, settled } from '../lib/browser.mjs'
import { record } from '../lib/lexicons.mjs'
import { inPage, network, newAccount, newServer, onBoth } from '../world.mjs'

test('the first person who logs in claims the server', async () => {
  const [server, alice, bob] = [await newServer(), await newAccount(), await newAccount()]
  await inPage(server, {}, async (page) => {
    await page.goto(`${server.url}/dashboard/`)
    await page.getByRole('heading', { name: 'Claim this server' }).waitFor()
    // By keyboard: the field has the focus.
    await page.keyboard.type(`@${alice.handle}`)
    await page.keyboard.press('Enter')
    await consent(page, alice)
    await settled(page)
    await open(page, '/account')
    await page.getByText('you are the super user').waitFor()

    await page.getByTitle('Account menu').click()
    await page.getByRole('button', { name: 'Log out' }).click()
    await page.getByRole('heading', { name: /^Log in to/ }).waitFor()
  })

  // Others have to be invited.
  await inPage(server, {}, async (page) => {
    await page.goto(`${server.url}/dashboard/`)
    await page.getByLabel(/handle/i).fill(bob.handle)
    await page.keyboard.press('Enter')
    await consent(page, bob)
    await page.getByText('Your account is not a user of this server').waitFor()
  })
})

onBoth('a lexicon is taken from the network, and its records appear', async (newServer, database) => {
  const [publisher, alice] = [await newAccount(), await newAccount()]
  const server = await newServer({ owner: alice })
  const nsid = `com.example.${database}.note`
  await (await network()).tell('/dns', { name: `_lexicon.${database}.example.com`, txt: `did=${publisher.did}` })
  await publisher.put('com.atproto.lexicon.schema', nsid, record(nsid))
  await inPage(server, {}, async (page) => {
    await page.goto(`${server.url}/dashboard/#/start`)
    await page.getByLabel(/handle/i).fill(alice.handle)
    await page.keyboard.press('Enter')
    await consent(page, alice)
    // The login returns to where it began.
    await page.getByRole('heading', { name: 'First steps' }).waitFor()
    // The answers of the checks move what is below them.
    await settled(page)
    await page.getByRole('link', { name: 'From the network' }).click()
    await page.getByLabel('NSID', { exact: true }).fill(nsid)
    await page.getByRole('button', { name: 'Look it up' }).click()
    await page.getByText(publisher.did).first().waitFor()
    await page.getByRole('button', { name: 'Add lexicon' }).click()
    await page.getByText(`${nsid} was added`).waitFor()

    // A record that is written now is counted without a reload of the page, and listed.
    await open(page, '/')
    const count = page.locator('main').getByRole('link', { name: /Records/ }).locator('strong')
    assert.equal(await count.innerText(), '0')
    await alice.put(nsid, 'first', { text: 'written just now' })
    await count.filter({ hasText: /^1$/ }).waitFor()
    await open(page, `/records?collection=${nsid}`)
    await page.getByText('written just now').waitFor()
  })
})

