// A new body of a script runs for a part of its callers, is returned, and is promoted.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkAccessibility, checkWidth, DESKTOP, open, PHONE } from '../lib/browser.mjs'
import { LIST, query } from '../lib/lexicons.mjs'
import { asUser, newAccount, newServer } from '../world.mjs'
import { write } from './scripts.mjs'

const body = (version) => `function handle()\n  return { version = "${version}" }\nend\n`

test('a new body runs for a part of the callers first', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(query(LIST))
  const id = `xrpc.query:${LIST}`
  await server.api('POST', '/admin/scripts', { id, body: body('one') })
  const saved = async () => (await server.api('GET', `/admin/scripts/${encodeURIComponent(id)}`)).body
  await asUser(server, alice, {}, async (page) => {
    await open(page, `/scripts/${encodeURIComponent(id)}`)
    await page.getByRole('tab', { name: 'Rollout' }).click()
    await page.getByText('There has been no rollout of this script.').waitFor()
    assert.ok(await page.getByRole('button', { name: 'Start', exact: true }).isDisabled(), 'the saved text is no candidate')
    await write(page, body('two'))
    await page.getByLabel('Percent of callers').fill('50')
    await page.getByRole('button', { name: 'Start', exact: true }).click()
    await page.getByRole('button', { name: 'Promote' }).waitFor()
    assert.equal(await saved(), body('one'))
    await checkAccessibility(page, 'a rollout')
    await page.setViewportSize(PHONE)
    await checkWidth(page, 'a rollout')
    await page.setViewportSize(DESKTOP)
    await page.getByRole('button', { name: 'Return', exact: true }).click()
    await page.getByText('All callers run the saved body.').first().waitFor()
    await page.getByText('an admin returned it').waitFor()

    await page.getByRole('button', { name: 'Start', exact: true }).click()
    await page.getByRole('button', { name: 'Promote' }).click()
    await page.getByText('The new body is saved.').first().waitFor()
    assert.equal(await saved(), body('two'))
    await page.reload()
    await page.locator('.cm-content').getByText('"two"').waitFor()
  })
})
