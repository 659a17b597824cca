// A plugin is installed: the page says what it may do, and nothing is installed before the admin agrees.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { test } from 'node:test'
import { open } from '../lib/browser.mjs'
import { asUser, newAccount, newServer } from '../world.mjs'
import { builtPlugin } from '../lib/plugin.mjs'

test('a plugin is installed with consent', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  const file = builtPlugin('markdown')
  assert.ok(fs.existsSync(file), `${file} is missing: run dev/plugins.sh`)
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/plugins/new')
    await page.locator('input[type="file"]').setInputFiles(file)
    await page.getByRole('button', { name: /install|accept/i }).last().waitFor()
    assert.equal((await server.api('GET', '/admin/plugins')).plugins.length, 0, 'not before the consent')
    await page.getByRole('button', { name: /install|accept/i }).last().click()
    await page.getByText(/installed/i).first().waitFor()
    assert.equal((await server.api('GET', '/admin/plugins')).plugins[0].status, 'active')
  })
})
