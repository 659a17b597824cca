// Scripts share a library, a setup makes a table, a schedule has its next time, and a script runs on stored records.
import assert from 'node:assert/strict'
import { open } from '../lib/browser.mjs'
import { NOTE, record } from '../lib/lexicons.mjs'
import { until } from '../lib/until.mjs'
import { asUser, newAccount, onBoth } from '../world.mjs'
import { write } from './scripts.mjs'

/** Chooses a kind of script by what it says, and names it. */
async function begin(page, kind, name) {
  await open(page, '/scripts/new')
  await page.getByText(kind).click()
  await page.getByLabel('Name', { exact: true }).pressSequentially(name, { delay: 20 })
  await page.getByRole('button', { name: 'Write the script' }).click()
  await page.getByRole('heading', { name, exact: true }).waitFor()
}

async function save(page, text) {
  if (text) await write(page, text)
  await page.getByRole('button', { name: 'Save', exact: true }).click()
}

onBoth('scripts share a library, a setup runs, and a schedule shows its next time', async (newServer) => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  await alice.put(NOTE, 'one', { text: 'hello' })
  await until('the record is indexed', async () => (await server.api('GET', `/admin/records?collection=${NOTE}`)).records.length === 1)
  await asUser(server, alice, {}, async (page) => {
    await begin(page, 'Code that other scripts get', 'words')
    await page.getByText('No script requires it yet').waitFor()
    await save(page, 'return { shout = function(text) return text:upper() end }\n')
    await page.getByText('The script is saved').first().waitFor()

    // A setup that fails says why, and is not stored.
    await begin(page, 'Runs once, when it is saved', 'tables')
    await save(page, 'function handle()\n  db.raw("CREATE TABLE script_words (word text, word text)")\nend\n')
    await page.getByText('the setup failed and was not saved').waitFor()
    await save(page, 'function handle()\n  db.raw("CREATE TABLE IF NOT EXISTS script_words (word text)")\nend\n')
    // Who opens another page while it is saved stays there.

    // A script that requires the library runs on what is stored.
    await open(page, `/scripts/new?trigger=record.index:${NOTE}`)
    await until('the setup is saved', async () => (await server.api('GET', '/admin/scripts')).some(({ id }) => id === 'setup:tables'))
    await save(page, 'local words = require("words")\nfunction handle()\n  record.text = words.shout(record.text)\n  return record\nend\n')
    await page.getByRole('button', { name: 'Run on stored records…' }).click()
    await page.getByRole('button', { name: 'Start the job' }).click()
    await page.getByRole('heading', { name: 'system/reindex-records' }).waitFor()
    await until('the script has run', async () => (await server.api('GET', `/admin/records?collection=${NOTE}`)).records[0].record.text === 'HELLO')

    // The library says who requires it, and is not deleted.
    await open(page, '/scripts/lib:words')
    await page.getByRole('list', { name: 'Used by' }).getByRole('link', { name: NOTE }).waitFor()
    await page.getByRole('button', { name: 'Delete…' }).click()
    await page.getByRole('button', { name: 'Delete the script' }).click()
    await page.getByText(/is required by record\.index/).waitFor()
    await page.keyboard.press('Escape')

    await begin(page, 'Runs as a job, at the times', 'nightly')
    await save(page, 'cron = "61 3 * * *"\nfunction handle() end\n')
    await page.getByText(/is not an expression of minute/).first().waitFor()
    await save(page, 'cron = "30 3 * * *"\ntimezone = "Europe/Berlin"\nfunction handle() end\n')
    await page.getByText('The script is saved').first().waitFor()
    await until('it has a time', async () => (await server.api('GET', '/admin/schedules')).schedules.length === 1)
    await open(page, '/jobs')
    const schedules = page.getByRole('table', { name: 'Schedules' })
    await schedules.getByText('Europe/Berlin').waitFor()
    assert.match(await schedules.innerText(), /nightly/)
  })
})
