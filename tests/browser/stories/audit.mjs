// Who did something, from where, and in which browsers somebody is logged in.
import assert from 'node:assert/strict'
import { BROWSER, checkAccessibility, checkWidth, open, PHONE, settled } from '../lib/browser.mjs'
import { until } from '../lib/until.mjs'
import { asUser, newAccount, onBoth } from '../world.mjs'

const TYPING = { delay: 90 }
/** The name that the dashboard gives the browser of the stories. */
const OWN = { chromium: 'Chrome on Linux', firefox: 'Firefox on Linux' }[BROWSER]

onBoth('the event log says from where something was done', async (newServer) => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.api('PUT', '/admin/settings/app_name', { value: 'Notes' })
  await server.api('PUT', '/admin/settings/tos_uri', { value: 'https://notes.example/tos' })
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/events?category=setting')
    const rows = page.locator('tbody tr')
    await rows.first().getByText(/127\.0\.0\.1 · API key/).waitFor()
    assert.equal(await rows.count(), 2)
    await checkAccessibility(page, 'events with addresses')

    // An event leads to the others of its subject.
    await rows.filter({ hasText: 'app_name' }).getByRole('button', { name: 'setting.updated' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText(/127\.0\.0\.1 · API key/).waitFor()
    await checkAccessibility(page, 'an event with its address')
    await dialog.getByRole('link', { name: 'All events of this subject' }).click()
    await until('only its events are shown', async () => (await rows.count()) === 1)
    const whole = page.getByLabel('Exactly this subject')
    assert.ok(await whole.isChecked())
    await whole.click()
    const subject = page.getByLabel('Subject', { exact: true })
    await subject.fill('')
    await subject.pressSequentially('name', TYPING)
    await until('a part of the subject finds it', async () => (await rows.count()) === 1 && page.url().includes('subject=name'))
    await whole.click()
    await page.getByText('No events match the filter').waitFor()
    await subject.fill('')
    await whole.waitFor({ state: 'hidden' })

    // An address is a condition when it is complete.
    await page.getByLabel('Category').selectOption('')
    await page.getByText('api_key.created').first().waitFor()
    const address = page.getByLabel('Address', { exact: true })
    await address.pressSequentially('127.0.', TYPING)
    await page.getByText('Enter an IP address.').waitFor()
    await address.pressSequentially('0.1', TYPING)
    await page.getByText('Enter an IP address.').waitFor({ state: 'hidden' })
    const created = page.getByText('api_key.created')
    await until('what the command line did has no address', async () => (await created.count()) === 0)
    await page.getByText('session.started').first().waitFor()
    await address.fill('192.0.2.1')
    await page.getByText('No events match the filter').waitFor()
    await page.getByRole('button', { name: 'Show all' }).click()
    await page.getByText('api_key.created').first().waitFor()
    await page.setViewportSize(PHONE)
    await checkWidth(page, 'events with addresses')
  })
})

onBoth('a user sees their browsers and ends the others', async (newServer) => {
  const [alice, bob] = [await newAccount(), await newAccount()]
  const server = await newServer({ owner: alice })
  await server.api('POST', '/admin/users', { did: bob.did, template: 'viewer' })
  await asUser(server, alice, {}, async (page) => {
    await asUser(server, alice, {}, async (other) => {
      await open(page, '/account')
      const sessions = page.getByRole('region', { name: 'Sessions' })
      const rows = sessions.locator('tbody tr', { hasText: OWN })
      await until('both browsers are there', async () => (await rows.count()) === 2)
      const own = rows.filter({ hasText: 'This browser' })
      await own.getByText('Dashboard in a browser · 127.0.0.1').waitFor()
      await checkAccessibility(page, 'sessions')
      // In Firefox, the page in front gets the keys.
      await page.bringToFront()
      await sessions.getByRole('button', { name: 'Log out of all other browsers' }).focus()
      await page.keyboard.press('Enter')
      await page.getByRole('dialog').getByRole('button', { name: 'Log out', exact: true }).click()
      await page.getByText('1 other browser is logged out.').waitFor()
      await until('this browser is left', async () => (await rows.count()) === 1)
      await open(other, '/lexicons')
      await other.getByText('Your session has ended').or(other.getByLabel(/handle/i)).first().waitFor()
    })

    await asUser(server, bob, {}, async (other) => {
      const [user] = (await server.api('GET', '/admin/users')).filter(({ did }) => did === bob.did)
      await open(page, `/users/${user.id}`)
      const browsers = page.getByRole('region', { name: 'Browsers' })
      await browsers.getByText(OWN).waitFor()
      await checkAccessibility(page, 'the browsers of a user')
      await page.setViewportSize(PHONE)
      await checkWidth(page, 'the browsers of a user')
      await browsers.getByRole('button', { name: `Log out of ${OWN}` }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Log out', exact: true }).click()
      await page.getByText('1 browser is logged out.').waitFor()
      await browsers.getByText('Not logged in anywhere.').waitFor()
      await open(other, '/lexicons')
      await other.getByText('Your session has ended').or(other.getByLabel(/handle/i)).first().waitFor()
    })
    await settled(page)
  })
})
