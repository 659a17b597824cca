// An event whose script failed is found, tried, and retried after the script was mended.
import assert from 'node:assert/strict'
import { open } from '../lib/browser.mjs'
import { NOTE, record } from '../lib/lexicons.mjs'
import { until } from '../lib/until.mjs'
import { asUser, newAccount, onBoth } from '../world.mjs'

onBoth('a dead letter is tried and retried', async (newServer) => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  const id = `record.index:${NOTE}`
  await alice.put(NOTE, 'bad', { text: 'an older text' })
  await until('the first version is indexed', async () =>
    (await server.api('GET', `/admin/records?collection=${NOTE}`)).records.length === 1)
  await server.api('POST', '/admin/scripts', { id, body: 'function handle() error("not today") end' })
  await alice.put(NOTE, 'bad', { text: 'unlucky' })
  const count = async () => (await server.api('GET', '/admin/dead-letters/count')).count
  await until('the letter is there', async () => (await count()) === 1)
  await server.api('POST', '/admin/scripts', { id, body: 'function handle() record.text = "lucky" return record end' })
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/dead-letters')
    await page.getByRole('link', { name: /bad/ }).first().click()
    await page.getByText('not today').first().waitFor()
    const compared = page.getByRole('region', { name: 'What the event would change in the index' })
    await compared.getByText('an older text').waitFor()
    await compared.getByText('unlucky').waitFor()
    await page.getByRole('button', { name: 'Try it' }).click()
    await page.getByText('The script changes it').waitFor()
    await page.getByRole('region', { name: 'What the script changes' }).getByText('unlucky').waitFor()
    await page.getByRole('region', { name: 'Compared with the record that is indexed now' }).getByText('an older text').waitFor()
    assert.equal(await count(), 1)
    await page.getByRole('button', { name: 'Run the script again' }).click()
    await page.getByText('No dead letters.').waitFor()
    assert.equal(await count(), 0)
    const [row] = (await server.api('GET', `/admin/records?collection=${NOTE}`)).records
    assert.equal(row.record.text, 'lucky')
  })
})
