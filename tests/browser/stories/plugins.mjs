// A plugin is installed: the page says what it may do, and nothing is installed before the admin agrees.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkAccessibility, open } from '../lib/browser.mjs'
import { builtPlugin } from '../lib/plugin.mjs'
import { asUser, newAccount, newServer } from '../world.mjs'

/** A permission without which the plugin runs. */
const DENIED = 'records:write?collection=dev.games.actor.stats'

test('a plugin is installed with consent', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  const { manifest, module } = builtPlugin('steam')
  const installed = async () => (await server.api('GET', '/admin/plugins')).plugins
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/plugins/new')
    await page.getByLabel('Files').check()
    await page.getByLabel('Manifest (manifest.json)').setInputFiles(manifest)
    await page.getByLabel('Module (.wasm)').setInputFiles(module)
    await page.getByRole('button', { name: 'Show what it asks for' }).click()
    await page.getByRole('heading', { name: /Steam .* asks for/ }).waitFor()
    await page.getByText('api.steampowered.com').first().waitFor()
    await checkAccessibility(page, 'the consent screen')
    assert.deepEqual(await installed(), [], 'not before the consent')

    // What is not accepted is denied.
    const boxes = page.locator('main').getByRole('checkbox')
    for (const box of await boxes.all()) await box.check()
    await page.getByRole('checkbox', { name: DENIED }).uncheck()
    await page.getByRole('button', { name: 'Install with these permissions' }).click()
    await page.getByText('Steam is installed.').waitFor()
    const [plugin] = await installed()
    assert.deepEqual([plugin.id, plugin.status], ['steam', 'active'])
    const refused = plugin.permissions.filter(({ granted }) => !granted).map(({ permission }) => permission)
    assert.deepEqual(refused, [DENIED])
  })
})
