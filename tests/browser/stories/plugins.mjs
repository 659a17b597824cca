// A plugin is installed: the page says what it may do, and nothing is installed before the admin agrees.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import http from 'node:http'
import { once } from 'node:events'
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
    await page.getByText('manifest.json', { exact: true }).waitFor()
    // A file is dropped, refused if it is of another kind, removed by the keyboard, and replaced.
    const drop = (name) => page.evaluate((name) => {
      const dataTransfer = new DataTransfer()
      dataTransfer.items.add(new File(['xx'], name))
      const zone = document.querySelectorAll('input[type=file]')[1].closest('.drop')
      zone.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }))
    }, name)
    await drop('notes.txt')
    await page.getByText('notes.txt is of another kind').waitFor()
    await drop('other.wasm')
    await page.getByText('2 bytes').waitFor()
    await page.getByRole('button', { name: 'Remove other.wasm' }).focus()
    await page.keyboard.press('Enter')
    assert.ok(await page.getByLabel('Module (.wasm)').evaluate((input) => input === document.activeElement))
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

    // A secret is stored, and removed again.
    await page.getByRole('tab', { name: 'Secrets' }).click()
    await page.getByLabel('Steam Web API key', { exact: true }).fill('not a real key')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByText('The secrets are saved.').waitFor()
    await page.getByRole('button', { name: 'Remove Steam Web API key' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove the secret' }).click()
    await page.getByText('Steam Web API key is removed.').waitFor()
    assert.deepEqual((await server.api('GET', '/admin/plugins/steam/secrets')).secrets, {})
  })
})

test('a plugin is installed from its address, and reloaded from there', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  const { manifest, module } = builtPlugin('steam')
  const described = JSON.parse(fs.readFileSync(manifest, 'utf8'))
  const site = http.createServer((request, response) => {
    if (request.url === '/steam/manifest.json') response.end(JSON.stringify(described))
    else if (request.url?.endsWith('.wasm')) response.end(fs.readFileSync(module))
    else response.writeHead(404).end()
  })
  site.listen(0, '127.0.0.1')
  await once(site, 'listening')
  try {
    await asUser(server, alice, {}, async (page) => {
      const address = `http://127.0.0.1:${site.address().port}/steam/manifest.json`
      await open(page, '/plugins/new')
      await page.getByLabel('Address of its manifest').fill(address.replace('steam/', 'missing/'))
      await page.getByRole('button', { name: 'Show what it asks for' }).click()
      await page.getByRole('alert').getByText(/404/).waitFor()
      await page.getByLabel('Address of its manifest').fill(address)
      await page.getByRole('button', { name: 'Show what it asks for' }).click()
      await page.getByRole('heading', { name: /Steam .* asks for/ }).waitFor()
      for (const box of await page.locator('main').getByRole('checkbox').all()) await box.check()
      await page.getByRole('button', { name: 'Install with these permissions' }).click()
      await page.getByText('Steam is installed.').waitFor()
      const [plugin] = (await server.api('GET', '/admin/plugins')).plugins
      assert.deepEqual([plugin.id, plugin.url], ['steam', address])

      // A version that is not the module's is refused with the reason, and the one before stays.
      const { version } = described
      described.version = '99.0.0'
      await page.getByRole('tab', { name: 'New version' }).click()
      const reload = page.getByRole('button', { name: 'Reload', exact: true })
      await reload.click()
      await page.getByText('The manifest has the version').waitFor()
      Object.assign(described, { version, description: 'Described anew' })
      await reload.click()
      await page.getByText('The plugin is reloaded').first().waitFor()
      await page.getByText('Described anew').first().waitFor()
      await page.getByRole('tab', { name: 'Accounts' }).click()
      await page.getByText('Nobody has linked an account yet.').waitFor()
    })
  } finally {
    site.closeAllConnections()
    site.close()
  }
})
