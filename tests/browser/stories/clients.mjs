// An application is registered in the dashboard, and its key is used.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkAccessibility, open } from '../lib/browser.mjs'
import { LIST, NOTE, query, record } from '../lib/lexicons.mjs'
import { asUser, newAccount, newServer } from '../world.mjs'

test('a client is created in three clicks and its key works', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  await server.upload(query(LIST), { target_collection: NOTE })
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/start')
    const section = page.getByRole('listitem').filter({ hasText: 'Register an application' })
    await section.getByLabel('Name').fill('My app')
    await section.getByLabel('URL', { exact: true }).fill('https://app.example')
    await section.getByRole('button', { name: 'Register' }).click()
    await page.getByText('Client key').first().waitFor()
    const [client] = await server.api('GET', '/admin/api-clients').then((answer) => answer.clients ?? answer.api_clients ?? answer)
    assert.equal(client.name, 'My app')
    const answer = await fetch(`${server.url}/xrpc/${LIST}`, { headers: { 'x-client-key': client.client_key, origin: 'https://app.example' } })
    assert.deepEqual([answer.status, await answer.json()], [200, { records: [] }])
    await open(page, '/clients')
    await page.getByText('My app').first().waitFor()

    // Its page has its calls by method, and what is left of its rate limit.
    await page.getByRole('link', { name: 'My app' }).click()
    const methods = page.getByRole('region', { name: 'Methods' })
    const row = methods.locator('tbody tr', { hasText: LIST })
    await row.waitFor()
    assert.deepEqual((await row.locator('td').allInnerTexts()).map((text) => text.trim()), [LIST, '1', '0'])
    await methods.getByText(/^\s*\d+ of \d+\s*$/).waitFor()
    await checkAccessibility(page, 'the use of a client')
    await row.getByRole('link', { name: LIST }).click()
    await page.getByRole('heading', { name: LIST }).waitFor()

    // What is entered stays when another tab is looked at.
    await open(page, `/clients/${client.id}`)
    await page.getByRole('tab', { name: 'Edit' }).click()
    const name = page.getByLabel('Name', { exact: true })
    await name.fill('My other app')
    await page.getByRole('tab', { name: 'Use' }).click()
    await page.getByRole('tabpanel', { name: 'Use' }).waitFor()
    assert.equal(await name.isVisible(), false)
    await page.getByRole('tab', { name: 'Edit' }).click()
    assert.equal(await name.inputValue(), 'My other app')
  })
})

test('a long list of clients is drawn to its end, and its last one is found', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  const numbers = Array.from({ length: 250 }, (_, n) => n)
  for (const n of numbers) {
    const uri = `https://app${n}.example`
    await server.api('POST', '/admin/api-clients', { name: `App ${n}`, client_id_url: `${uri}/m.json`, client_uri: uri, redirect_uris: [`${uri}/c`] })
  }
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/clients')
    const rows = page.locator('main tbody tr')
    await rows.nth(249).waitFor()
    const names = await rows.locator('td:first-child a').allInnerTexts()
    assert.deepEqual(names.map((name) => name.trim()).sort(), numbers.map((n) => `App ${n}`).sort())
    const last = rows.nth(249).getByRole('link')
    const name = await last.innerText()
    await last.click()
    await page.getByRole('heading', { name }).waitFor()
  })
})
