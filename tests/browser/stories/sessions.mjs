// A session that has ended, a server that is restarted under an open page, and a session in another tab.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { consent, isStream, open, settled } from '../lib/browser.mjs'
import { NOTE, record } from '../lib/lexicons.mjs'
import { until } from '../lib/until.mjs'
import { asUser, newAccount, newServer } from '../world.mjs'

test('an ended session leads to the login and back to where one was', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/lexicons')
    await page.context().clearCookies()
    await page.getByRole('link', { name: NOTE }).first().click()
    await page.getByText('Your session has ended').waitFor()
    await page.getByLabel(/handle/i).fill(alice.handle)
    await page.keyboard.press('Enter')
    await consent(page, alice)
    await settled(page)
    await page.waitForURL((url) => url.hash.includes('/lexicons/'))
    await page.getByRole('heading', { name: NOTE }).waitFor()
  })
})

test('a session that ends over a form takes nothing with it', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/script-variables')
    await page.getByLabel('Name', { exact: true }).fill('API_KEY')
    await page.getByLabel('Value', { exact: true }).fill('typed with care')
    await page.context().clearCookies()
    await page.getByRole('button', { name: 'Add', exact: true }).click()
    const dialog = page.getByRole('dialog', { name: 'Your session has ended' })
    await dialog.waitFor()
    const opened = page.context().waitForEvent('page')
    await dialog.getByRole('link', { name: 'Log in in another tab' }).click()
    const tab = await opened
    await tab.getByLabel(/handle/i).fill(alice.handle)
    await tab.keyboard.press('Enter')
    await consent(Object.assign(tab, { base: server.url }), alice)
    await tab.close()
    await page.bringToFront()
    await page.evaluate(() => dispatchEvent(new Event('focus')))
    await dialog.waitFor({ state: 'hidden' })
    assert.equal(await page.getByLabel('Value', { exact: true }).inputValue(), 'typed with care')
    await page.getByRole('button', { name: 'Add', exact: true }).click()
    await page.getByText('env.API_KEY is set').waitFor()
  })
})

test('a session that ends over a setting takes nothing with it', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/settings')
    const field = page.getByLabel('Home page')
    await field.fill('https://typed.example')
    await page.context().clearCookies()
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByRole('dialog', { name: 'Your session has ended' }).waitFor()
    assert.equal(await field.inputValue(), 'https://typed.example')
  })
})

test('a page survives a restart of the server', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  await asUser(server, alice, {}, async (page) => {
    const banner = page.getByText('The server does not answer').first()
    await server.stop()
    await banner.waitFor()
    // A page that is opened meanwhile says that it waits, and opens.
    await page.getByRole('navigation').getByRole('link', { name: 'Statistics', exact: true }).click()
    await page.getByText('It opens when the server answers again').waitFor()
    await server.start()
    await banner.waitFor({ state: 'hidden' })
    await page.getByRole('heading', { name: 'Statistics', exact: true }).waitFor()
    await open(page, '/')
    await page.getByText('in 1 collections').or(page.getByText('in 1 collection')).first().waitFor()

    // The live log goes on by itself.
    await open(page, '/events')
    const live = page.getByText('Live', { exact: true })
    await live.waitFor()
    await server.stop()
    await page.getByText('Connecting…').waitFor()
    await banner.waitFor()
    await server.start()
    await banner.waitFor({ state: 'hidden' })
    await live.waitFor()
    await server.upload(record('com.example.other'))
    await page.getByText('com.example.other').first().waitFor()

    // Whoever reads older events keeps their place, and is told of what the stream missed.
    for (let n = 0; n < 100; n += 1) await server.upload(record(`com.example.many${n}`))
    await page.reload()
    await page.getByRole('button', { name: 'Load more' }).click()
    const oldest = page.getByText('com.example.other').first()
    await oldest.waitFor()
    await live.waitFor()
    await server.stop()
    await page.getByText('Connecting…').waitFor()
    await server.start()
    await server.upload(record('com.example.missed'))
    const newer = page.getByRole('button', { name: /^Show \d+ new events?$/ })
    await newer.waitFor()
    assert.ok(await oldest.isVisible())
    await newer.click()
    await page.getByText('com.example.missed').first().waitFor()
  })
})

test('seven tabs of the event log share one stream', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await asUser(server, alice, {}, async (page) => {
    const tabs = [page]
    while (tabs.length < 7) tabs.push(Object.assign(await page.context().newPage(), { base: server.url, waiting: new Set() }))
    const streams = []
    for (const tab of tabs) {
      tab.on('request', (request) => { if (isStream(request)) streams.push(tab) })
      await open(tab, '/events')
      await tab.getByText('Live', { exact: true }).waitFor()
    }
    await server.upload(record(NOTE))
    for (const tab of tabs) await tab.getByText(NOTE).first().waitFor()
    assert.equal(new Set(streams).size, 1)
    // Another tab takes over from the one that closes.
    await page.goto('about:blank')
    await until('another tab has the stream', () => new Set(streams).size === 2)
    for (const tab of tabs.slice(1)) await tab.getByText('Live', { exact: true }).waitFor()
    await server.upload(record('com.example.later'))
    for (const tab of tabs.slice(1)) await tab.getByText('com.example.later').first().waitFor()
  })
})
