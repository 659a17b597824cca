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
  await server.api('POST', '/admin/scripts', { id, body: 'function handle() error("not today") end' })
  await alice.put(NOTE, 'bad', { text: 'unlucky' })
  const count = async () => (await server.api('GET', '/admin/dead-letters/count')).count
  await until('the letter is there', async () => (await count()) === 1)
  await server.api('POST', '/admin/scripts', { id, body: 'function handle() record.text = "lucky" return record end' })
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/dead-letters')
    await page.getByRole('link', { name: /bad/ }).first().click()
    await page.getByText('not today').first().waitFor()
    await page.getByText('What the event would change in the index').waitFor()
    await page.getByRole('button', { name: 'Try it' }).click()
    await page.getByText('The script changes it').waitFor()
    assert.equal(await count(), 1)
    await page.getByRole('button', { name: 'Run the script again' }).click()
    await page.getByText('No dead letters.').waitFor()
    assert.equal(await count(), 0)
    const [row] = (await server.api('GET', `/admin/records?collection=${NOTE}`)).records
    assert.equal(row.record.text, 'lucky')
  })
})

onBoth('a dead letter is compared with what is indexed now', async (newServer) => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  const id = `record.index:${NOTE}`
  const indexed = async () => (await server.api('GET', `/admin/records?collection=${NOTE}`)).records[0]?.record.text
  await server.api('POST', '/admin/scripts', { id, body: 'function handle() error("not today") end' })
  await alice.put(NOTE, 'bad', { text: 'unlucky' })
  await until('the letter is there', async () => (await server.api('GET', '/admin/dead-letters/count')).count === 1)
  await server.api('POST', '/admin/scripts', { id, body: 'function handle() record.text = record.text .. ", changed by the script" return record end' })
  await alice.put(NOTE, 'bad', { text: 'a newer text' })
  await until('the newer version is indexed', async () => (await indexed()) === 'a newer text, changed by the script')
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/dead-letters')
    // The account has its handle, in the list and on the page.
    await page.getByRole('link', { name: `at://${alice.handle}/${NOTE}/bad` }).first().click()
    const facts = page.locator('dl.facts')
    await facts.getByText(alice.handle, { exact: true }).waitFor()
    await facts.getByText(`at://${alice.handle}/${NOTE}/bad`).waitFor()
    const compared = page.getByRole('region', { name: 'What the event would change in the index' })
    await compared.getByText('a newer text, changed').waitFor()
    await compared.getByText('unlucky').waitFor()
    await page.getByRole('button', { name: 'Try it' }).click()
    await page.getByRole('region', { name: 'What the script changes' }).getByText('unlucky, changed').waitFor()
    const trial = page.getByRole('region', { name: 'Compared with the record that is indexed now' })
    await trial.getByText('a newer text, changed').waitFor()
    await trial.getByText('unlucky, changed').waitFor()
  })
})
