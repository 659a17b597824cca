// People have their handles, names and pictures where the server has DIDs.
import assert from 'node:assert/strict'
import { checkAccessibility, open } from '../lib/browser.mjs'
import { NOTE, record } from '../lib/lexicons.mjs'
import { until } from '../lib/until.mjs'
import { asUser, newAccount, onBoth } from '../world.mjs'

const PROFILE = 'app.bsky.actor.profile'

/** The smallest picture there is. */
const PIXEL = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64')

/** A name that is read from right to left, and has markup. */
const NAME = '\u202eBob <img src=x onerror=alert(1)>'

onBoth('people have handles, names and pictures', async (newServer) => {
  const [alice, bob] = [await newAccount(), await newAccount()]
  const server = await newServer({ owner: alice })
  for (const nsid of [PROFILE, NOTE]) await server.upload(record(nsid))
  const avatar = await bob.blob(PIXEL, 'image/png')
  await bob.put(PROFILE, 'self', { displayName: NAME, avatar })
  const uri = await bob.put(NOTE, 'one', { text: 'a note' })
  await until('they are indexed', async () => (await server.api('GET', '/admin/stats')).total_records === 2)
  await server.api('POST', '/admin/users', { did: bob.did, template: 'viewer' })
  await server.api('POST', '/admin/moderation', { subject: uri, action: 'hide', reason: 'for a while' })
  const account = async () => (await server.api('GET', `/admin/accounts?did=${bob.did}`)).accounts[0]
  await until('the server has looked Bob up', async () => (await account()).avatar)

  await asUser(server, alice, {}, async (page) => {
    const requests = []
    page.on('request', (request) => request.url().includes('/admin/accounts?') && requests.push(request.url()))
    await open(page, '/users')
    const row = page.locator('tbody tr', { hasText: bob.handle })
    await row.getByText('Bob <img').waitFor()
    // One without a record here is a user all the same.
    await page.locator('tbody tr', { hasText: alice.handle }).waitFor()
    assert.equal(requests.length, 1, 'the accounts of a page are asked for together')
    assert.equal(await row.getByTitle(bob.did).count(), 1)
    await row.getByRole('button', { name: `Copy ${bob.did}` }).click()
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), bob.did)
    await until('the picture is shown', () => row.locator('img').evaluate((image) => image.complete && image.naturalWidth === 1))
    await checkAccessibility(page, 'users')
    await row.getByRole('link', { name: bob.handle }).click()
    await page.getByRole('heading', { name: bob.handle }).waitFor()

    await open(page, '/moderation')
    const decision = page.locator('tbody tr', { hasText: 'for a while' })
    await decision.getByText(`at://${bob.handle}/${NOTE}/one`).waitFor()
    await decision.getByText(alice.handle).waitFor()
    await open(page, `/records/why?uri=${encodeURIComponent(uri)}`)
    await page.getByRole('region', { name: 'Answer' }).getByText(bob.handle).waitFor()
    await open(page, '/events?category=moderation')
    await page.locator('tbody tr', { hasText: 'moderation' }).first().getByText(alice.handle).waitFor()
  })
})
