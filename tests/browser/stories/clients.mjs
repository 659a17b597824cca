// An application is registered in the dashboard, and its key is used.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open } from '../lib/browser.mjs'
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
