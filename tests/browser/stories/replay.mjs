// Runs of a script are recorded, and a new body runs on them before it is saved.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkAccessibility, checkWidth, DESKTOP, open, PHONE } from '../lib/browser.mjs'
import { LIST, query } from '../lib/lexicons.mjs'
import { asUser, newAccount, newServer } from '../world.mjs'
import { write } from './scripts.mjs'

const body = (version) => `function handle()\n  return { version = "${version}", at = now() }\nend\n`

test('a new body runs on the recorded runs of a script', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(query(LIST))
  const id = `xrpc.query:${LIST}`
  await server.api('POST', '/admin/scripts', { id, body: body('one') })
  await asUser(server, alice, {}, async (page) => {
    await open(page, `/scripts/${encodeURIComponent(id)}`)
    await page.getByRole('tab', { name: 'Replay' }).click()
    await page.getByText('Runs of this script are not recorded.').waitFor()
    await page.getByLabel('Minutes').fill('10')
    await page.getByRole('button', { name: 'Record', exact: true }).click()
    await page.getByText('100 % of runs are recorded until').waitFor()
    for (let call = 0; call < 3; call++) {
      const status = await page.evaluate(async (path) => (await fetch(path)).status, `/xrpc/${LIST}`)
      assert.equal(status, 200)
    }
    await page.getByText('3 runs').waitFor()

    await page.getByRole('button', { name: 'Replay', exact: true }).click()
    await page.getByText('3 of 3 runs are identical.').waitFor()
    await write(page, body('two'))
    await page.getByRole('button', { name: 'Replay', exact: true }).click()
    await page.getByText('0 of 3 runs are identical.').waitFor()
    await page.getByText('Other answer').waitFor()
    await page.getByText('"one" → "two"').waitFor()
    await checkAccessibility(page, 'a replay')
    await page.setViewportSize(PHONE)
    await checkWidth(page, 'a replay')
    await page.setViewportSize(DESKTOP)

    await page.getByRole('button', { name: 'Remove the runs' }).click()
    await page.getByText('Runs of this script are not recorded.').waitFor()
  })
})
