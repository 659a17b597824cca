// A script is written, tried, saved, broken, mended and restored.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open } from '../lib/browser.mjs'
import { LIST, NOTE, query, record } from '../lib/lexicons.mjs'
import { until } from '../lib/until.mjs'
import { asUser, newAccount, onBoth } from '../world.mjs'

/** Replaces the text of the editor. */
export async function write(page, text) {
  await page.locator('.cm-content').click()
  await page.keyboard.press('ControlOrMeta+a')
  // Pasted: Firefox makes two lines of a line that a driver inserts.
  await page.evaluate((text) => navigator.clipboard.writeText(text), text)
  await page.keyboard.press('ControlOrMeta+v')
}

onBoth('a script is written, tried, saved, and its errors have their line', async (newServer) => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  await server.upload(query(LIST), { target_collection: NOTE })
  const uri = await alice.put(NOTE, 'one', { text: 'hello' })
  await until('the record is indexed', async () => (await server.api('GET', `/admin/records?collection=${NOTE}`)).records.length === 1)
  await asUser(server, alice, {}, async (page) => {
    // The lexicon leads to its script, which does not exist yet.
    await open(page, `/lexicons/${NOTE}`)
    await page.getByRole('link', { name: 'Script', exact: true }).click()
    await page.getByText('There is no script yet').waitFor()
    await page.getByRole('link', { name: 'Write the script' }).click()
    await page.getByRole('heading', { name: NOTE, exact: true }).waitFor()
    await open(page, '/scripts')
    await page.getByRole('link', { name: 'New script' }).first().click()
    await page.getByText('Decides on each event of a collection').click()
    await page.getByLabel('NSID of the method or collection').fill(NOTE)
    await page.getByRole('button', { name: 'Write the script' }).click()

    // Broken: saving marks the line and stores nothing.
    await write(page, 'function handle()\n  return record text\nend\n')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByRole('list', { name: 'Problems in the script' }).getByText('Line 2').waitFor()
    assert.equal((await server.api('GET', '/admin/scripts')).length, 0)

    // Tried on the indexed record: the result, the log, and what it cost.
    await write(page, 'function handle()\n  log("saw " .. record.text)\n  record.text = record.text .. " world"\n  return record\nend\n')
    await page.getByLabel('Record', { exact: true }).fill(uri)
    await page.getByRole('button', { name: 'Run', exact: true }).click()
    await page.getByText('The script changes it').waitFor()
    await page.getByText('saw hello').waitFor()
    await page.getByText('Instructions').first().waitFor()
    const [row] = (await server.api('GET', `/admin/records?collection=${NOTE}`)).records
    assert.equal(row.record.text, 'hello')

    // A failure of the run names its line too.
    await write(page, 'function handle()\n  local x = nil\n  return x.text\nend\n')
    await page.getByRole('button', { name: 'Run', exact: true }).click()
    await page.getByText('Go to line 3').waitFor()

    await write(page, 'function handle()\n  record.text = record.text .. " world"\n  return record\nend\n')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByText('The script is saved').waitFor()
    await alice.put(NOTE, 'two', { text: 'changed' })
    await until('the script runs', async () => (await server.api('GET', `/admin/records?collection=${NOTE}`)).records[0].record.text === 'changed world')

    // A second version; the history leads back to the first.
    await write(page, 'function handle()\n  return true\nend\n')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await until('it is saved', async () => (await server.api('GET', `/admin/scripts/record.index:${NOTE}/revisions`)).revisions.length === 2)
    await page.getByRole('tab', { name: 'History' }).click()
    await page.getByRole('button', { name: '1', exact: true }).click()
    await page.getByRole('button', { name: 'Take it into the editor' }).click()
    await until('the text is back', async () => /world/.test(await page.locator('.cm-content').innerText()))
  })
})
