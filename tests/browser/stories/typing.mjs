// What people type at their speed stays as they typed it, and is not lost by a link, Back, or a reload.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkAccessibility, open, settled } from '../lib/browser.mjs'
import { LIST, NOTE, query, record } from '../lib/lexicons.mjs'
import { until } from '../lib/until.mjs'
import { asUser, newAccount, newServer } from '../world.mjs'

/** Milliseconds between two keys of a quick writer. */
const SPEED = 30

const WORDS = [
  ...'and break do else elseif end false for function if in local nil not or repeat return then true until while'.split(' '),
  ...'db record params input total string.format'.split(' '),
]

const linesOf = (page) => page.locator('.cm-line').evaluateAll((lines) => lines.map((line) => line.textContent.trim()))

test('the editor writes what is typed', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  await server.upload(query(LIST), { target_collection: NOTE })
  await asUser(server, alice, {}, async (page) => {
    await open(page, `/scripts/new?trigger=xrpc.query:${LIST}`)
    await page.locator('.cm-content').click()
    await page.keyboard.press('ControlOrMeta+a')
    await page.keyboard.press('Delete')
    for (const word of WORDS) {
      await page.keyboard.type(word, { delay: SPEED })
      await page.keyboard.press('Enter')
    }
    assert.deepEqual((await linesOf(page)).filter(Boolean), WORDS)

    // Members are offered after the dot, and what the arrows chose is taken.
    await page.keyboard.type('db.', { delay: SPEED })
    await page.getByRole('option', { name: 'db.backend' }).waitFor()
    await page.keyboard.type('qu', { delay: SPEED })
    await page.getByRole('option', { name: 'db.backend' }).waitFor({ state: 'hidden' })
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await until('the name is complete', async () => (await linesOf(page)).includes('db.query'))
    // Nothing is offered in a comment, and a script's own names are.
    await page.keyboard.press('Enter')
    await page.keyboard.type('local taken = 1 -- ta', { delay: SPEED })
    await until('nothing is offered', async () => (await page.getByRole('option').count()) === 0)
    await page.keyboard.press('Enter')
    await page.keyboard.type('ta', { delay: SPEED })
    await page.getByRole('option', { name: 'taken' }).waitFor()

    // The text is there after a reload, and the page says so.
    await page.reload()
    await page.getByText('These are changes that you have not saved').waitFor()
    await until('the text is there', async () => (await linesOf(page)).includes('db.query'))
  })
})

test('unsaved input is asked about and kept', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  await asUser(server, alice, {}, async (page) => {
    const question = page.getByRole('dialog', { name: 'Leave without saving?' })
    const restored = page.getByText('These are changes that you have not saved')
    // The address changes before the page does, and a page that one comes back to by then was not left.
    const users = page.getByRole('heading', { name: 'Users', level: 1 })
    const link = (name) => page.getByRole('navigation').getByRole('link', { name, exact: true })
    const type = async (field, text) => {
      await field.click()
      await page.keyboard.type(text, { delay: SPEED })
    }
    const stay = () => question.getByRole('button', { name: 'Cancel' }).click()
    const leave = () => question.getByRole('button', { name: 'Leave the page' }).click()

    await open(page, '/clients')
    await page.getByRole('link', { name: 'New client' }).first().click()
    const name = page.getByLabel('Name', { exact: true })
    await type(name, 'Typed with care')
    // By a link: the page stays until one agrees.
    await link('Users').click()
    await question.waitFor()
    await stay()
    assert.match(page.url(), /clients\/new/)
    assert.equal(await name.inputValue(), 'Typed with care')
    // By Back.
    await page.goBack()
    await question.waitFor()
    await stay()
    assert.match(page.url(), /clients\/new/)
    await page.goBack()
    await leave()
    await page.waitForURL(/#\/clients$/)
    await page.getByRole('heading', { name: 'API clients', level: 1 }).waitFor()
    await page.goForward()
    await restored.waitFor()
    assert.equal(await name.inputValue(), 'Typed with care')
    // By a reload: the browser asks, and the text stays.
    const asked = page.waitForEvent('dialog')
    await name.press('End')
    await page.keyboard.type('!', { delay: SPEED })
    await page.reload()
    assert.equal((await asked).type(), 'beforeunload')
    await restored.waitFor()
    assert.equal(await name.inputValue(), 'Typed with care!')
    await page.getByRole('button', { name: 'Discard them' }).click()
    assert.equal(await name.inputValue(), '')
    await link('Users').click()
    await users.waitFor()

    // The same for a setting, a lexicon, and a dialog.
    await open(page, '/settings')
    await type(page.getByLabel('Home page'), 'https://typed.example')
    await link('Users').click()
    await leave()
    await users.waitFor()
    await open(page, '/settings')
    await restored.waitFor()
    assert.equal(await page.getByLabel('Home page').inputValue(), 'https://typed.example')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await restored.waitFor({ state: 'hidden' })

    await open(page, `/lexicons/${NOTE}?tab=edit`)
    await page.locator('.cm-content').click()
    await page.keyboard.press('ControlOrMeta+End')
    await page.keyboard.type(' ', { delay: SPEED })
    await link('Users').click()
    await leave()
    await users.waitFor()
    await page.goBack()
    await restored.waitFor()
    await page.getByRole('button', { name: 'Discard them' }).click()

    await open(page, '/api-keys')
    await page.getByRole('button', { name: 'New API key' }).first().click()
    await type(page.getByLabel('Name', { exact: true }), 'half a key')
    await page.reload()
    await restored.waitFor()
    assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'half a key')
    await page.getByRole('button', { name: 'Cancel' }).click()

    // A secret is not kept, and the question says so.
    await open(page, '/script-variables')
    await type(page.getByLabel('Value', { exact: true }), 's3cret')
    await link('Users').click()
    await question.getByText('lost when you leave').waitFor()
    await leave()
    assert.equal(await page.evaluate(() => JSON.stringify(sessionStorage).includes('s3cret')), false)
  })
})

test('a query without a target collection is warned of, and the collection that fits is proposed', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  await server.upload(record('com.example.unrelated'))
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/lexicons/new?from=file')
    await page.locator('.cm-content').click()
    await page.keyboard.insertText(JSON.stringify(query(LIST)))
    const target = page.getByLabel('Target collection')
    await target.waitFor()
    await until('the collection is proposed', async () => (await target.inputValue()) === NOTE)
    await target.fill('')
    await page.getByText('Without a target collection the query answers with an empty list').waitFor()
    await page.getByRole('button', { name: 'Preview', exact: true }).click()
    const warning = page.getByText('The query has no target_collection, so it answers with an empty list')
    await warning.waitFor()
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await page.waitForURL((url) => url.hash.endsWith(`/lexicons/${LIST}`))
    await warning.waitFor()
    await open(page, '/lexicons')
    await page.getByRole('row', { name: LIST }).getByText('Warning', { exact: true }).waitFor()
  })
})

test('the palette finds things by their names, and logs out', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  await server.upload(query(LIST), { target_collection: NOTE })
  await server.api('POST', '/admin/scripts', { id: `xrpc.query:${LIST}`, body: 'function handle() return {} end' })
  const client = await server.api('POST', '/admin/api-clients', {
    name: 'A reader', client_id_url: 'https://app.example/m.json', client_uri: 'https://app.example', redirect_uris: ['https://app.example/c'],
  })
  await asUser(server, alice, {}, async (page) => {
    const find = async (text, name) => {
      await page.keyboard.press('ControlOrMeta+k')
      await page.getByRole('combobox').waitFor()
      await page.keyboard.type(text, { delay: SPEED })
      await page.getByRole('option', { name }).waitFor()
    }
    await find(client.client_key.slice(0, 12), 'A reader')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'A reader' }).waitFor()
    await find('script listnotes', `xrpc.query:${LIST}`)
    await page.keyboard.press('Enter')
    await page.locator('.cm-content').waitFor()
    await find(alice.handle, `${alice.handle} User`)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: alice.handle }).waitFor()
    await find('sign out', 'Log out')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: /^Log in/ }).waitFor()
  })
})

test('a query is called from its page', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  const lexicon = query(LIST)
  lexicon.defs.main.parameters = {
    type: 'params', required: ['word'],
    properties: { word: { type: 'string' }, limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 } },
  }
  await server.upload(lexicon, { target_collection: NOTE })
  await server.api('POST', '/admin/scripts', { id: `xrpc.query:${LIST}`, body: 'function handle() return { said = params.word, n = params.limit } end' })
  await asUser(server, alice, {}, async (page) => {
    await server.api('POST', '/admin/api-clients', {
      name: 'A reader', client_id_url: 'https://app.example/m.json', client_uri: 'https://app.example', redirect_uris: ['https://app.example/c'],
    })
    await open(page, `/lexicons/${LIST}?tab=try`)
    const call = page.getByRole('button', { name: 'Call it' })
    assert.ok(await call.isDisabled(), 'word is required')
    await page.getByLabel('word').pressSequentially("it's & <b>", { delay: SPEED })
    await page.getByText('/xrpc/com.example.listNotes?word=it%27s+%26+%3Cb%3E').waitFor()
    await call.click()
    const answer = page.getByRole('region', { name: 'Answer' }).first()
    await answer.getByText('200').waitFor()
    await answer.getByText(`"it's & <b>"`).waitFor()
    await answer.getByText('20', { exact: true }).waitFor()
    await page.getByLabel('limit').pressSequentially('1000', { delay: SPEED })
    await call.click()
    await answer.getByText('400').waitFor()
    await page.getByLabel('Called by').selectOption('Anyone, without a client')
    await call.click()
    await answer.getByText('401').waitFor()
    await settled(page)
    await checkAccessibility(page, 'a call')
    await server.stop()
    await call.click()
    await page.getByRole('alert').first().waitFor()
    await server.start()
  })
})
