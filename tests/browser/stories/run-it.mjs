// Things are run from the dashboard: a job, a SELECT, a procedure; and found by the command palette and the event log.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { test } from 'node:test'
import { checkAccessibility, checkWidth, consent, DOWNLOADS, open, PHONE, settled } from '../lib/browser.mjs'
import { NOTE, record } from '../lib/lexicons.mjs'
import { until } from '../lib/until.mjs'
import { asUser, newAccount, newServer } from '../world.mjs'

/** Milliseconds between two keys of a quick writer. */
const SPEED = 30
const PUT = 'com.example.putNote'

const procedure = (id) => ({
  lexicon: 1,
  id,
  defs: {
    main: {
      type: 'procedure',
      input: {
        encoding: 'application/json',
        schema: {
          type: 'object',
          required: ['text'],
          properties: { n: { type: 'integer' }, text: { type: 'string' } },
        },
      },
      output: { encoding: 'application/json' },
    },
  },
})

/** Types over the text of the editor. */
async function type(page, text) {
  await page.locator('.cm-content').click()
  await page.keyboard.press('ControlOrMeta+a')
  await page.keyboard.type(text, { delay: SPEED })
}

test('a job is started from the list and from its script', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.api('POST', '/admin/scripts', { id: 'job.run:greet', body: 'function handle()\n  return "Hello " .. (job.input.name or "you")\nend\n' })
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/jobs')
    await page.getByRole('button', { name: 'Start job…' }).click()
    const dialog = page.getByRole('dialog', { name: 'Start a job' })
    // The only type is there; JSON is checked while it is typed.
    await until('the type is there', async () => (await dialog.getByLabel('Type').inputValue()) === 'greet')
    const input = dialog.getByLabel('Input')
    await input.click()
    await page.keyboard.type('{"name": ', { delay: SPEED })
    await dialog.getByText('This is not JSON').waitFor()
    assert.ok(await dialog.getByRole('button', { name: 'Start job', exact: true }).isDisabled())
    await checkAccessibility(page, 'the form of a job')
    // It is kept when the dialog is closed.
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Start job…' }).click()
    await until('the input is kept', async () => (await input.inputValue()) === '{"name": ')
    await input.press('End')
    await page.keyboard.type('"Ada"}', { delay: SPEED })
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'greet' }).waitFor()
    await page.getByRole('region', { name: 'Result' }).getByText('"Hello Ada"').waitFor()

    await open(page, '/scripts/job.run%3Agreet')
    await page.getByRole('button', { name: 'Start job…' }).click()
    await page.getByRole('dialog', { name: 'Start a job greet' }).getByRole('button', { name: 'Start job', exact: true }).click()
    await page.getByRole('region', { name: 'Result' }).getByText('"Hello you"').waitFor()
  })
})

test('a statement is run, explained, downloaded and found again', DOWNLOADS, async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  for (const n of [1, 2, 3]) await alice.put(NOTE, `sql${n}`, { text: n === 2 ? '=HYPERLINK("x")' : `<b>note ${n}</b>`, n })
  await until('the records are indexed', async () => (await server.api('GET', `/admin/records?collection=${NOTE}`)).records.length === 3)
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/sql')
    const sql = "SELECT uri, record ->> 'text' AS text FROM records ORDER BY uri"
    await type(page, sql)
    await page.keyboard.press('ControlOrMeta+Enter')
    await page.getByText('3 rows in').waitFor()
    await page.getByRole('cell', { name: '<b>note 1</b>' }).waitFor()
    await checkAccessibility(page, 'rows of a statement')
    await page.getByRole('button', { name: 'Open row 1', exact: true }).click()
    await page.getByRole('dialog', { name: 'Row 1', exact: true }).getByText('<b>note 1</b>').waitFor()
    await page.keyboard.press('Escape')
    const [saved] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download CSV' }).click()])
    const csv = fs.readFileSync(await saved.path(), 'utf8')
    assert.ok(csv.startsWith('uri,text\r\n') && csv.includes(`"'=HYPERLINK(""x"")"`), csv)

    await page.getByRole('button', { name: 'Explain' }).click()
    await page.getByRole('region', { name: 'Plan' }).waitFor()

    // Errors have their place, and secrets are out of reach.
    await type(page, 'SELECT uri FROM records WHERE )')
    await page.getByRole('button', { name: 'Run', exact: true }).click()
    await page.getByRole('alert').getByText('Line: 1, Column: 31').waitFor()
    await page.locator('.cm-lintRange-error').first().waitFor()
    await type(page, 'SELECT * FROM api_keys')
    await page.keyboard.press('ControlOrMeta+Enter')
    await page.getByText('Table api_keys can’t be used').or(page.getByText("api_keys can't be used")).first().waitFor()

    // The statement is there after a reload; those before are in the history, without rows.
    await page.reload()
    await until('the text is back', async () => /api_keys/.test(await page.locator('.cm-content').innerText()))
    await page.getByRole('tab', { name: 'History' }).click()
    await checkAccessibility(page, 'the history of statements')
    await page.getByRole('button', { name: sql }).first().click()
    await until('the statement is back', async () => /record ->> 'text'/.test(await page.locator('.cm-content').innerText()))
    const kept = await page.evaluate(() => JSON.stringify(localStorage))
    assert.ok(!kept.includes('HYPERLINK') && kept.includes('api_keys'), kept)

    await page.setViewportSize(PHONE)
    await page.getByRole('button', { name: 'Run', exact: true }).click()
    await page.getByText('3 rows in').waitFor()
    await checkWidth(page, 'rows of a statement')

    // What was run is in the event log, which is filtered by who acted; and the palette finds single settings.
    await open(page, `/events?category=sql&actor=${alice.handle}`)
    assert.equal(await page.getByRole('button', { name: 'sql.run' }).count(), 5)
    await page.setViewportSize({ width: 1440, height: 900 })
    await page.keyboard.press('ControlOrMeta+k')
    await page.getByRole('combobox', { name: 'Command palette' }).waitFor()
    await page.keyboard.type('retention backfill', { delay: SPEED })
    await page.getByRole('option', { name: /Setting/ }).first().click()
    await page.getByRole('heading', { name: 'Settings' }).waitFor()
    await until('the setting has the focus', () => page.evaluate(() => document.activeElement?.closest('#setting-backfill_retention_days') !== null))
  })
})

test('a procedure is called from its lexicon', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  await server.upload(procedure(PUT), { target_collection: NOTE })
  await asUser(server, alice, {}, async (page) => {
    await open(page, `/lexicons/${PUT}?tab=try`)
    const call = page.getByRole('button', { name: 'Call it…' })
    assert.ok(await call.isDisabled(), 'the text is required')
    await page.getByLabel('text', { exact: true }).click()
    await page.keyboard.type('written by hand', { delay: SPEED })
    await page.getByLabel('n (optional)').fill('7')
    await page.getByRole('tab', { name: 'JSON' }).click()
    const json = page.getByRole('textbox', { name: 'Input' })
    assert.deepEqual(JSON.parse(await json.inputValue()), { n: 7, text: 'written by hand' })
    await json.fill('{"text": "written as JSON", "n": 8')
    await page.getByText('This is not JSON').waitFor()
    await json.fill('{"text": "written as JSON", "n": 8}')
    await page.getByRole('tab', { name: 'Form' }).click()
    await until('the form has it', async () => (await page.getByLabel('text', { exact: true }).inputValue()) === 'written as JSON')
    await checkAccessibility(page, 'the form of a procedure')

    // It asks, and says what a login that may not write is missing.
    const ask = page.getByRole('dialog', { name: `Call ${PUT}?` })
    await call.click()
    await ask.getByRole('button', { name: 'Cancel' }).click()
    await call.click()
    await ask.getByRole('button', { name: 'Call it' }).click()
    await page.getByText('Your login here may not write to your repo').waitFor()
    await page.getByRole('button', { name: 'Log in again and allow it' }).click()
    await consent(page, alice)
    await settled(page)
    await page.getByLabel('text', { exact: true }).fill('written by hand')
    await call.click()
    await ask.getByRole('button', { name: 'Call it' }).click()
    await page.getByRole('region', { name: 'Answer' }).getByText('200').waitFor()
    await until('it is indexed', async () => (await server.api('GET', `/admin/records?collection=${NOTE}`)).records.some(({ record }) => record.text === 'written by hand'))

    await page.getByRole('button', { name: 'Copy as curl' }).click()
    const curl = await page.evaluate(() => navigator.clipboard.readText())
    assert.ok(curl.startsWith("curl -X POST -H 'content-type: application/json'"), curl)
  })
})
