// An operator hides what should not be seen, and shows it again.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, openPage, logIn } from '../lib/browser.mjs'
import { LIST, NOTE, query, record } from '../lib/lexicons.mjs'
import { until } from '../lib/until.mjs'
import { asUser, browser, newAccount, newServer, onBoth } from '../world.mjs'

/** A server with notes of Bob, and an API client that reads them. */
async function withNotes(start, alice, bob, notes) {
  const server = await start({ owner: alice })
  await server.upload(record(NOTE))
  await server.upload(query(LIST), { target_collection: NOTE })
  for (const [key, text] of Object.entries(notes)) await bob.put(NOTE, key, { text })
  const count = Object.keys(notes).length
  await until('they are indexed', async () => (await server.api('GET', '/admin/stats')).total_records === count)
  const client = await server.api('POST', '/admin/api-clients', {
    name: 'Reader', client_id_url: 'https://app.example/m.json', client_uri: 'https://app.example', redirect_uris: ['https://app.example/c'],
  })
  return Object.assign(server, { clientKey: client.client_key })
}

/** The texts of the notes that everyone sees. */
async function visible(server) {
  const answer = await fetch(`${server.url}/xrpc/${LIST}`, { headers: { 'x-client-key': server.clientKey } })
  return (await answer.json()).records.map((record) => record.text)
}

const localTime = (ms) => new Date(Date.now() + ms).toISOString().slice(0, 16)

onBoth('a record is hidden with a reason and an expiry, seen by operators, and lifted', async (start) => {
  const [alice, bob] = [await newAccount(), await newAccount()]
  const server = await withNotes(start, alice, bob, { good: 'a good note', bad: 'a bad note' })
  await asUser(server, alice, {}, async (page) => {
    const uri = bob.uri(NOTE, 'bad')
    await open(page, `/records?collection=${NOTE}&uri=${encodeURIComponent(uri)}`)
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('link', { name: 'Moderate', exact: true }).click()
    await dialog.getByRole('heading', { name: 'Hide or take down' }).waitFor()
    assert.equal(await dialog.getByLabel('Record or account').inputValue(), uri)
    const send = dialog.getByRole('button', { name: /^(Take it down|Hide it)$/ })
    assert.ok(await send.isDisabled(), 'it needs a reason')
    await dialog.getByLabel('Effect').selectOption('hidden')
    await dialog.getByLabel('Reason').fill('Reported by a member')
    await dialog.getByLabel('Until').fill(localTime(-3_600_000))
    await send.click()
    await dialog.getByText('expires_at must be in the future').waitFor()
    await dialog.getByLabel('Until').fill(localTime(48 * 3_600_000))
    await send.click()
    await dialog.waitFor({ state: 'hidden' })
    const row = page.locator('tbody tr', { hasText: 'Reported by a member' })
    await row.getByText('hidden').waitFor()
    assert.deepEqual(await visible(server), ['a good note'])

    // The records have it under a filter, and a link to it still opens it.
    await open(page, `/records?collection=${NOTE}`)
    await page.getByText('a good note').waitFor()
    assert.equal(await page.getByText('a bad note').count(), 0)
    await page.getByLabel(/^Moderation/).selectOption('hidden or taken down')
    await page.locator('tbody tr', { hasText: 'a bad note' }).getByText('hidden').waitFor()
    assert.equal(await page.getByText('a good note').count(), 0)
    await open(page, `/records?collection=${NOTE}&uri=${encodeURIComponent(uri)}`)
    await dialog.getByText('Hidden here').waitFor()
    await dialog.getByText('Reported by a member').waitFor()
    await dialog.getByRole('button', { name: 'Lift…' }).click()
    await page.getByRole('dialog').last().getByRole('button', { name: 'Lift it' }).click()
    await page.getByText('It is visible again').waitFor()
    await until('everyone sees it', async () => (await visible(server)).length === 2)
    await open(page, '/moderation')
    await page.getByText('Nothing is moderated.').waitFor()
    await page.getByRole('button', { name: 'Show lifted ones' }).click()
    await row.waitFor()
  })
})

test('a decision ends by itself, and an account is taken down with its records', async () => {
  const [alice, bob] = [await newAccount(), await newAccount()]
  const server = await withNotes(newServer, alice, bob, { one: 'first note', two: 'second note' })
  await asUser(server, alice, {}, async (page) => {
    const soon = new Date(Date.now() + 4_000).toISOString()
    const [subject, reason] = [bob.uri(NOTE, 'one'), 'for a moment']
    await server.api('POST', '/admin/moderation', { subject, action: 'takedown', reason, expires_at: soon })
    await open(page, '/moderation')
    await page.getByText('for a moment').waitFor()
    await until('it is visible again', async () => (await visible(server)).length === 2)
    await page.reload()
    await page.getByText('Nothing is moderated.').waitFor()

    await open(page, `/records?collection=${NOTE}&uri=${encodeURIComponent(subject)}`)
    await page.getByRole('dialog').getByRole('link', { name: 'Moderate the account' }).click()
    await page.getByLabel('Reason').fill('It only posts spam')
    await page.getByRole('button', { name: /^(Take it down|Hide it)$/ }).click()
    await page.locator('tbody tr', { hasText: 'It only posts spam' }).getByText('taken down').waitFor()
    assert.deepEqual(await visible(server), [])
    await open(page, `/records?collection=${NOTE}&repo=${bob.did}&moderated=true`)
    await page.getByText('second note').click()
    await page.getByRole('dialog').getByText('Its account is taken down here').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Lift…' }).click()
    await page.getByRole('button', { name: 'Lift it' }).click()
    await until('everyone sees them', async () => (await visible(server)).length === 2)
  })
})

test('a form that is left half done sends nothing', async () => {
  const [alice, bob] = [await newAccount(), await newAccount()]
  const server = await withNotes(newServer, alice, bob, { one: 'first note' })
  await asUser(server, alice, {}, async (page) => {
    const uri = bob.uri(NOTE, 'one')
    await open(page, `/moderation?subject=${encodeURIComponent(uri)}`)
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Reason').fill('not sure yet')
    // A reload asks, and what was written is still there; Back asks too.
    const asked = page.waitForEvent('dialog')
    await page.reload()
    assert.equal((await asked).type(), 'beforeunload')
    await dialog.getByText('These are changes that you have not saved').waitFor()
    assert.equal(await dialog.getByLabel('Reason').inputValue(), 'not sure yet')
    await page.goBack()
    await page.getByRole('dialog', { name: 'Leave without saving?' }).getByRole('button', { name: 'Cancel' }).click()
    assert.equal(await dialog.getByLabel('Reason').inputValue(), 'not sure yet')
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'hidden' })
    await page.getByText('Nothing is moderated.').waitFor()
    await page.waitForURL((url) => !url.hash.includes('subject'))
    await page.getByRole('button', { name: 'Hide or take down' }).first().click()
    await dialog.getByLabel('Record or account').fill('neither of them')
    await dialog.getByLabel('Reason').fill('x')
    await dialog.getByRole('button', { name: /^(Take it down|Hide it)$/ }).click()
    await dialog.getByText('subject must be the AT URI').waitFor()
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    await dialog.waitFor({ state: 'hidden' })
    assert.deepEqual((await server.api('GET', '/admin/moderation')).moderation, [])
    assert.deepEqual(await visible(server), ['first note'])
  })
})

test('two operators decide at once, and the server goes away in between', async () => {
  const [alice, bob] = [await newAccount(), await newAccount()]
  const server = await withNotes(newServer, alice, bob, { one: 'first note' })
  await asUser(server, alice, {}, async (page) => {
    const uri = bob.uri(NOTE, 'one')
    await open(page, `/moderation?subject=${encodeURIComponent(uri)}`)
    const other = await openPage(await browser(), server)
    await logIn(other, alice, '/moderation')
    await page.getByLabel('Reason').fill('of the first')
    const { id } = await server.api('POST', '/admin/moderation', { subject: uri, action: 'hide', reason: 'of the second' })
    await other.reload()
    await other.getByText('of the second').waitFor()

    // Without a server the form says so, and keeps what was written.
    await server.stop()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('button', { name: /^(Take it down|Hide it)$/ }).click()
    await dialog.getByRole('alert').waitFor()
    assert.equal(await dialog.getByLabel('Reason').inputValue(), 'of the first')
    await server.start()
    await dialog.getByRole('button', { name: /^(Take it down|Hide it)$/ }).click()
    // It does not end the other decision without having shown it.
    await dialog.getByText('It is hidden already').waitFor()
    await dialog.getByText('of the second').waitFor()
    assert.equal((await server.api('GET', `/admin/moderation/${id}`)).lifted_at, null)
    await dialog.getByRole('button', { name: 'Replace it' }).click()
    await dialog.waitFor({ state: 'hidden' })
    await page.getByText('of the first').waitFor()
    await page.getByRole('button', { name: 'Hide or take down' }).first().click()
    assert.equal(await dialog.getByLabel('Reason').inputValue(), '', 'the reason was for another subject')
    await dialog.getByRole('button', { name: 'Cancel' }).click()

    // The other tab shows the decision that is gone. Lifting it again harms nothing, and the list is as it is.
    await other.locator('tbody tr', { hasText: 'of the second' }).getByRole('button', { name: 'Lift…' }).click()
    await other.getByRole('button', { name: 'Lift it' }).click()
    await other.getByText('of the first').waitFor()
    const { moderation } = await server.api('GET', '/admin/moderation?active=true')
    assert.equal(moderation.length, 1)
    assert.notEqual(moderation[0].id, id)
    await other.context().close()
  })
})
