// Questions and secrets: they belong to the page that asked, and stay until they are answered.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open } from '../lib/browser.mjs'
import { LIST, NOTE, query, record } from '../lib/lexicons.mjs'
import { asUser, newAccount, newServer } from '../world.mjs'

test('a question disappears with its page', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  await server.upload(query(LIST), { target_collection: NOTE })
  await asUser(server, alice, {}, async (page) => {
    await open(page, `/lexicons/${LIST}`)
    await open(page, `/lexicons/${NOTE}`)
    await page.getByRole('button', { name: /^Delete/ }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText(NOTE).first().waitFor()
    await page.goBack()
    await page.getByRole('heading', { name: LIST }).waitFor()
    await dialog.waitFor({ state: 'hidden' })
    assert.equal((await server.api('GET', '/admin/lexicons')).length, 2)

    // Pressing the dialog itself, or its edge, answers nothing; the backdrop closes it.
    await page.getByRole('button', { name: /^Delete/ }).click()
    await dialog.waitFor()
    const box = await dialog.boundingBox()
    await page.mouse.click(box.x + box.width - 2, box.y + box.height / 2)
    assert.ok(await dialog.isVisible())
    await page.mouse.click(4, 4)
    await dialog.waitFor({ state: 'hidden' })
  })
})

test('a secret stays until it is put away', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/api-keys')
    await page.getByRole('button', { name: 'New API key' }).first().click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name', { exact: true }).fill('ci')
    await dialog.getByRole('checkbox').first().check()
    await dialog.locator('button.primary').click()
    const secret = page.getByRole('dialog').locator('code')
    await secret.waitFor()
    await page.keyboard.press('Escape')
    await page.mouse.click(4, 4)
    assert.ok(await secret.isVisible())
    await page.getByRole('dialog').locator('button.primary').click()
    await secret.waitFor({ state: 'hidden' })
  })
})

test('a new script for a method that has one opens that one', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  const id = `record.index:${NOTE}`
  await server.api('POST', '/admin/scripts', { id, body: 'function handle()\n  return record -- in production\nend\n' })
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/scripts/new')
    await page.getByText('Decides on each event of a collection').click()
    await page.getByLabel('NSID of the method or collection').fill(NOTE)
    await page.getByRole('button', { name: 'Write the script' }).click()
    await page.getByText('in production').waitFor()
    await page.waitForURL((url) => url.hash.includes('/scripts/record'))
  })
})
