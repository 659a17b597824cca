// Lexicons as a schema, an app's parts and callers, two instances compared, and what editors offer and keep.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { test } from 'node:test'
import { checkAccessibility, checkWidth, DOWNLOADS, open, PHONE } from '../lib/browser.mjs'
import { LIST, NOTE, query, record } from '../lib/lexicons.mjs'
import { until } from '../lib/until.mjs'
import { asUser, newAccount, newServer } from '../world.mjs'

/** Milliseconds between two keys of a quick writer. */
const SPEED = 30
const DEFS = 'com.example.defs'

const defs = {
  lexicon: 1,
  id: DEFS,
  defs: {
    place: {
      type: 'object',
      required: ['name'],
      properties: { name: { type: 'string' }, about: { type: 'ref', ref: NOTE }, far: { type: 'ref', ref: 'com.other.defs#thing' } },
    },
  },
}

const linesOf = (page) => page.locator('.cm-line').evaluateAll((lines) => lines.map((line) => line.textContent))

test('a schema leads from lexicon to lexicon', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  await server.upload(query(LIST), { target_collection: NOTE })
  await server.upload(defs)
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/lexicons')
    await page.getByRole('link', { name: 'Schema' }).click()
    const diagram = page.getByRole('region', { name: 'Diagram of com.example' })
    await diagram.getByRole('link', { name: `${LIST}, query` }).waitFor()
    await checkAccessibility(page, 'the schema of a namespace')
    // By the keyboard: the box of the definitions, between those that refer to it and those that it refers to.
    await diagram.getByRole('link', { name: `${DEFS}, definitions` }).focus()
    await page.keyboard.press('Enter')
    const chosen = page.getByRole('region', { name: `Diagram of ${DEFS}` })
    await chosen.getByRole('img', { name: 'com.other.defs, not here' }).waitFor()
    await chosen.getByText('about?').waitFor()
    await checkAccessibility(page, 'the schema of a lexicon')
    await page.getByRole('tab', { name: 'List' }).click()
    const places = page.getByRole('region', { name: '#place' })
    await places.getByText('com.other.defs#thing').waitFor()
    await page.getByRole('cell', { name: '#place.about' }).waitFor()
    await checkAccessibility(page, 'the list of a schema')
    await places.getByRole('link', { name: NOTE }).click()
    await until('the note is chosen', async () => (await page.getByRole('combobox', { name: 'Lexicon' }).inputValue()) === NOTE)
    await page.getByRole('link', { name: 'Open the lexicon' }).click()
    await page.getByRole('tab', { name: 'Schema' }).click()
    await page.getByRole('region', { name: `Diagram of ${NOTE}` }).getByRole('link', { name: `${LIST}, query` }).click()
    await page.getByRole('heading', { name: LIST }).waitFor()

    await page.setViewportSize(PHONE)
    await open(page, `/lexicons/schema?id=${DEFS}`)
    await page.getByRole('region', { name: '#place' }).waitFor()
    await checkWidth(page, 'the list of a schema')
    await page.getByRole('tab', { name: 'Diagram' }).click()
    await chosen.waitFor()
    await checkWidth(page, 'the diagram of a schema')
  })
})

test('the SQL console offers names, and Try it keeps its input', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  const method = query(LIST)
  method.defs.main.parameters = { type: 'params', properties: { actor: { type: 'string' } } }
  await server.upload(method, { target_collection: NOTE })
  await asUser(server, alice, {}, async (page) => {
    const offered = (name) => page.locator('.cm-tooltip-autocomplete').getByRole('option', { name })
    /** Takes the first name. Keys that come sooner than a person can read are not for the list. */
    const choose = async (name) => {
      await offered(name).waitFor()
      await page.waitForTimeout(200)
      await page.keyboard.press('ArrowDown')
      await page.keyboard.press('Enter')
    }
    await open(page, '/sql')
    await page.locator('.cm-content').click()
    // Enter is a new line until the arrows chose a name.
    await page.keyboard.type('SELECT ha', { delay: SPEED })
    await offered('handle').waitFor()
    await page.keyboard.press('Enter')
    assert.deepEqual(await linesOf(page), ['SELECT ha', ''])
    await page.keyboard.press('Backspace')
    await page.keyboard.type('n', { delay: SPEED })
    await choose('handle')
    await page.keyboard.type(' FROM acc', { delay: SPEED })
    await choose('accounts')
    await page.keyboard.type(' a WHERE a.', { delay: SPEED })
    await offered('did').waitFor()
    await page.keyboard.type('did IS NOT NULL', { delay: SPEED })
    assert.deepEqual(await linesOf(page), ['SELECT handle FROM accounts a WHERE a.did IS NOT NULL'])
    await page.keyboard.press('Escape')
    await page.keyboard.press('ControlOrMeta+Enter')
    await page.getByText(/\d rows? in/).waitFor()

    await open(page, `/lexicons/${LIST}?tab=try`)
    const actor = page.getByLabel('actor (optional)')
    await actor.click()
    await page.keyboard.type('did:plc:typed', { delay: SPEED })
    await page.getByRole('button', { name: 'Call it' }).click()
    await page.getByRole('region', { name: 'Answer' }).getByText(/^[2-5]\d\d$/).waitFor()
    await open(page, '/lexicons')
    await open(page, `/lexicons/${LIST}?tab=try`)
    await until('the input is there', async () => (await actor.inputValue()) === 'did:plc:typed')
    await page.reload()
    await until('the input is there', async () => (await actor.inputValue()) === 'did:plc:typed')

    // In a script, within the string of db.raw.
    await open(page, `/scripts/new?trigger=xrpc.query:${LIST}`)
    await page.locator('.cm-content').click()
    await page.keyboard.press('ControlOrMeta+a')
    await page.keyboard.type('db.raw([[SELECT target_', { delay: SPEED })
    await offered('target_uri').waitFor()
  })
})

test('an app has its parts and its callers', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  await server.upload(query(LIST), { target_collection: NOTE })
  await server.api('POST', '/admin/scripts', { id: `xrpc.query:${LIST}`, body: 'function handle()\n  if params.fail then error("no") end\n  return { notes = toarray({}) }\nend\n' })
  const client = await server.api('POST', '/admin/api-clients', {
    name: 'Notes for the phone', client_id_url: 'https://app.example/m.json', client_uri: 'https://app.example', redirect_uris: ['https://app.example/c'],
  })
  for (let n = 0; n < 3; n += 1) await fetch(`${server.url}/xrpc/${LIST}`, { headers: { 'x-client-key': client.client_key } })
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/apps')
    await page.getByRole('link', { name: 'com.example' }).click()
    await page.getByRole('heading', { name: 'com.example' }).waitFor()
    await checkAccessibility(page, 'an app')
    const callers = page.getByRole('table', { name: 'Callers' })
    await callers.getByRole('row', { name: /Notes for the phone/ }).getByText('3', { exact: true }).waitFor()
    await page.getByRole('table', { name: 'Lexicons' }).getByRole('link', { name: LIST }).waitFor()
    await page.getByLabel('Time window').selectOption('7d')
    await callers.getByRole('link', { name: 'Notes for the phone' }).click()
    await page.getByRole('heading', { name: 'Notes for the phone' }).waitFor()
    await open(page, '/apps/com.example')
    await page.getByRole('table', { name: 'Scripts and views' }).getByRole('link', { name: LIST }).click()
    await page.getByText('It is called').or(page.locator('.cm-content')).first().waitFor()
    await page.setViewportSize(PHONE)
    await open(page, '/apps/com.example')
    await callers.waitFor()
    await checkWidth(page, 'an app')
  })
})

test('an instance is compared with the export of another', DOWNLOADS, async () => {
  const alice = await newAccount()
  const [first, second] = [await newServer({ owner: alice }), await newServer({ owner: alice })]
  await first.upload(record(NOTE))
  await second.upload(record(NOTE))
  await second.upload(query(LIST), { target_collection: NOTE })
  await second.api('PUT', '/admin/settings/app_name', { value: 'Second' })
  let file
  await asUser(first, alice, {}, async (page) => {
    await open(page, '/compare')
    const [saved] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save this instance’s export' }).click()])
    file = { name: saved.suggestedFilename(), mimeType: 'application/json', buffer: fs.readFileSync(await saved.path()) }
    assert.ok(file.name.endsWith('.export.json'), file.name)
    const chosen = page.getByLabel('Export of the other instance')
    await chosen.setInputFiles({ name: 'other.json', mimeType: 'application/json', buffer: Buffer.from('{}') })
    await page.getByRole('alert').getByText('not an export').waitFor()
    await chosen.setInputFiles(file)
    await page.getByText('Both instances are the same').waitFor()
  })
  await asUser(second, alice, {}, async (page) => {
    await open(page, '/compare')
    await page.getByLabel('Export of the other instance').setInputFiles(file)
    const result = page.getByRole('region', { name: 'Differences' })
    await result.getByText('only here').first().waitFor()
    await result.getByText('app_name').click()
    await result.getByRole('region', { name: 'Lines of app_name that differ' }).getByText('Second').waitFor()
    await checkAccessibility(page, 'two instances compared')
    await page.getByLabel('Kind').selectOption('lexicon')
    await result.getByText('app_name').waitFor({ state: 'hidden' })
    await result.getByText(LIST, { exact: true }).click()
    await page.setViewportSize(PHONE)
    await checkWidth(page, 'two instances compared')
  })
})
