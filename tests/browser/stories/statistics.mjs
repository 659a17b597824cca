// Charts: a time is selected with the mouse and with the keyboard, compared, and read as numbers. Alerts: one is created, tested,
// changed and deleted.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { checkAccessibility, checkWidth, open, settled } from '../lib/browser.mjs'
import { fillMinutes } from '../lib/history.mjs'
import { LIST, NOTE, query, record } from '../lib/lexicons.mjs'
import { until } from '../lib/until.mjs'
import { asUser, newAccount, newServer } from '../world.mjs'

/** Milliseconds between two keys of a person. */
const TYPING = 40

const parameters = (page) => new URLSearchParams(page.url().split('?')[1] ?? '')

async function withCalls() {
  const owner = await newAccount()
  const server = await newServer({ owner })
  await server.upload(record(NOTE))
  await server.upload(query(LIST), { target_collection: NOTE })
  const other = 'com.atproto.identity.resolveHandle'
  fillMinutes(server, [
    { metric: 'requests', label: LIST, mean: 300, millis: 2 },
    { metric: 'requests', label: other, mean: 60, millis: 9 },
    { metric: 'request_errors', label: LIST, mean: 3 },
    { metric: 'records_written', label: NOTE, mean: 20 },
  ])
  return { owner, server }
}

test('a time is selected in a chart, and left again', async () => {
  const { owner, server } = await withCalls()
  await asUser(server, owner, {}, async (page) => {
    await open(page, '/statistics')
    await page.getByRole('button', { name: '1 h' }).click()
    await page.getByRole('tab', { name: 'Methods' }).click()
    const chart = page.getByRole('group', { name: /^Calls\. / })
    await chart.locator('canvas').waitFor()
    // The legend has the last value while nothing is pointed at.
    await until('the legend has a rate', async () => /Latest/.test(await chart.innerText()) && /\d\/s/.test(await chart.innerText()))

    // By the mouse.
    const { x, y, width, height } = await chart.locator('.u-over').boundingBox()
    await page.mouse.move(x + width * 0.3, y + height / 2)
    await page.mouse.down()
    await page.mouse.move(x + width * 0.6, y + height / 2, { steps: 8 })
    await page.mouse.up()
    await until('the address has the time', () => parameters(page).get('until') !== null)
    const seconds = (Date.parse(parameters(page).get('until')) - Date.parse(parameters(page).get('from'))) / 1000
    assert.ok(Math.abs(seconds - 0.3 * 3600) < 120, `${seconds} s`)
    await page.getByRole('button', { name: 'Back to one hour' }).click()
    await until('the window is back', () => parameters(page).get('from') === null)

    // By the keyboard.
    await settled(page)
    await chart.focus()
    await chart.press('Home')
    for (let n = 0; n < 10; n += 1) await chart.press('Shift+ArrowRight', { delay: TYPING })
    await page.getByText(/UTC.*: /).first().waitFor()
    await chart.press('Enter')
    await until('ten minutes are selected', () => {
      const [from, end] = ['from', 'until'].map((name) => Date.parse(parameters(page).get(name)))
      return end - from === 600_000
    })
    await settled(page)
    await chart.focus()
    await chart.press('Escape')
    await until('Escape leads back', () => parameters(page).get('from') === null)

    // Compared, and as numbers.
    await page.getByLabel('Compare with the time before').check()
    await chart.getByText(/\(before \d/).first().waitFor()
    const card = page.locator('figure').filter({ has: chart })
    await card.getByText('Show the numbers').click()
    const rows = card.getByRole('row')
    await until('the table has a row for each minute', async () => (await rows.count()) > 55)
    await checkAccessibility(page, 'a chart with its numbers')
    await checkWidth(page, 'a chart with its numbers')

    // One method: p50 and p99 in a chart, and its lexicon.
    await page.getByRole('region', { name: 'Calls by method', exact: true }).getByRole('link', { name: LIST }).click()
    await page.getByRole('heading', { name: 'Latency', exact: true }).waitFor()
    await page.getByRole('link', { name: 'Lexicon', exact: true }).click()
    await page.getByRole('link', { name: 'Charts', exact: true }).click()
    await until('the method is chosen', () => parameters(page).get('name') === LIST)

    await page.getByRole('tab', { name: 'Collections' }).click()
    await page.getByRole('link', { name: NOTE }).first().waitFor()
  })
})

test('an alert is created, tested, changed and deleted', async () => {
  const calls = []
  const hook = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => (body += chunk))
    request.on('end', () => {
      calls.push({ signature: request.headers['belvedere-signature'], body: JSON.parse(body) })
      response.end()
    })
  })
  await new Promise((ready) => hook.listen(0, '127.0.0.1', ready))
  const owner = await newAccount()
  const server = await newServer({ owner })
  try {
    await asUser(server, owner, {}, async (page) => {
      await open(page, '/statistics')
      await page.getByRole('tab', { name: 'Alerts' }).click()
      await page.getByText('No alerts').waitFor()
      await page.getByRole('button', { name: 'New alert' }).click()
      const form = page.getByRole('dialog')
      await form.getByLabel('Name').pressSequentially('The database is large', { delay: TYPING })
      await form.getByLabel('Value').selectOption({ label: 'Size of the database' })
      await form.getByLabel(/^Threshold/).fill('500')
      await form.getByLabel('Webhook', { exact: false }).first().check()
      await form.getByLabel('Address of the webhook').pressSequentially(`http://127.0.0.1:${hook.address().port}/hook`, { delay: 10 })
      await checkAccessibility(page, 'the form of an alert')
      await form.getByRole('button', { name: 'Create the alert' }).click()
      await page.getByRole('dialog', { name: 'Secret of the webhook' }).getByRole('button', { name: 'I have stored it' }).click()
      const row = page.getByRole('row').filter({ hasText: 'The database is large' })
      await row.getByText('above 500 GB').waitFor()

      await row.getByRole('button', { name: 'Send a test' }).click()
      await page.getByText('The webhook accepted the test.').waitFor()
      assert.equal(calls[0].body.state, 'test')
      assert.match(calls[0].signature, /^t=\d+,v1=[0-9a-f]{64}$/)

      // Above nothing it fires at once.
      await row.getByRole('button', { name: 'The database is large' }).click()
      await form.getByLabel(/^Threshold/).fill('0')
      await form.getByLabel('Minutes').fill('0')
      await form.getByRole('button', { name: 'Save the alert' }).click()
      await row.getByText('firing').waitFor({ timeout: 60_000 })
      await until('the webhook is called', () => calls.some(({ body }) => body.state === 'firing'))
      await checkAccessibility(page, 'alerts')

      await row.getByRole('button', { name: 'Turn off' }).click()
      await row.getByText('off', { exact: true }).waitFor()
      await row.getByRole('button', { name: 'Delete' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
      await page.getByText('No alerts').waitFor()
    })
  } finally {
    hook.close()
  }
})
