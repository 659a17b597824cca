// The pages of the example apps, each against its running app: they call the server from another origin.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { App } from '../../../examples/lib/app.mjs'
import { uri } from '../../../examples/lib/network.mjs'
import { checkWidth, openPage, PHONE } from '../lib/browser.mjs'
import { until } from '../lib/until.mjs'
import { browser } from '../world.mjs'

/** Runs a story in the page of an example. The page has no error, and its style. */
function story(name, title, tell) {
  test(title, async () => {
    const app = await App.start(name, { page: 0 })
    try {
      const page = await openPage(await browser(), { url: app.pageUrl }, { viewport: PHONE })
      await page.goto(app.pageUrl)
      const main = page.locator('main')
      const shows = (text) => main.getByText(text).first().waitFor()
      const be = (account) => page.getByLabel('You are').selectOption(account)
      const menu = (name) => page.getByRole('navigation').getByRole('link', { name }).click()
      await tell({ app, page, main, shows, be, menu })
      await checkWidth(page, name)
      const style = await page.evaluate(() => getComputedStyle(document.querySelector('header')).display)
      assert.equal(style, 'flex')
      assert.deepEqual(page.problems, [])
      await page.context().close()
    } finally {
      await app.stop()
    }
  })
}

story('microblog', 'the page of the microblog: timeline, thread, profile, search', async ({ app, page, main, shows, be, menu }) => {
  await main.getByRole('alert').getByText("This can't be shown").waitFor()
  await be('alice')
  await shows(/^Note \d+ of the garden diary/)
  const posts = main.locator('ol > li')
  const before = await posts.count()
  await main.getByRole('button', { name: 'More' }).click()
  await until('the next page is there', async () => await posts.count() > before)
  assert.equal(await main.getByText('You are all wrong').count(), 0)

  await app.network.put('carol', 'app.bsky.feed.post', 'live', { text: 'A post of now', createdAt: new Date().toISOString() })
  await until('a reload has the new post', async () => {
    await page.reload()
    await posts.first().waitFor()
    return (await posts.first().innerText()).includes('A post of now')
  })
  await main.getByRole('link', { name: 'Carol' }).first().click()
  await shows('followers')
  await shows('You follow them. They follow you.')
  // Not goBack: in Firefox it waits for a navigation, which another fragment is not.
  await page.evaluate(() => history.back())
  await shows('A post of now')
  await page.goto(`${app.pageUrl}#thread/${uri('alice', 'app.bsky.feed.post', 'first')}`)
  await shows('Which plants like shade?')
  await shows('Do not forget moss')
  await menu('Notifications')
  await shows('follow')
  await menu('Search')
  await main.getByLabel('Search for').fill('mountains & <b>')
  await page.keyboard.press('Enter')
  // The list of what was found, also of nothing.
  await main.locator('ol').waitFor({ state: 'attached' })
  assert.equal(await main.getByLabel('Search for').inputValue(), 'mountains & <b>')
  await main.getByLabel('Search for').fill('mountains')
  await main.getByRole('button', { name: 'Search' }).click()
  await shows('Hello from the mountains')
})

story('links', 'the page of the links: hot, new, comments', async ({ page, main, shows, be, menu }) => {
  await shows('A kite that flies by itself')
  assert.equal(await main.getByText('yours too').count(), 0)
  await be('alice')
  await shows('yours too')
  await menu('New')
  await shows('Cheap boats')
  const links = main.locator('ol > li')
  await main.getByRole('button', { name: 'More' }).click()
  await until('all are there', async () => await links.count() === 29)
  await menu('Hot')
  await main.locator('li', { hasText: 'How to build a boat' }).getByRole('link', { name: '4 comments' }).click()
  await shows('Larch is lighter')
  await main.getByRole('link', { name: 'Alice' }).first().click()
  await until('it has the links of the account', async () => await links.count() === 1)
  await menu('Comments')
  await shows('Which wood?')
})

story('events', 'the page of the events: what comes, an event, mine, months', async ({ page, main, shows, be, menu }) => {
  await shows('Walk of month 3')
  await main.getByRole('link', { name: 'Walk of month 3' }).click()
  await shows('Carol going')
  await main.getByRole('link', { name: 'Alice' }).first().click()
  await shows('Walk of month 12')
  await menu('Mine')
  await main.getByRole('alert').waitFor()
  await be('dave')
  await shows('Talk of month 3')
  await menu('Months')
  await shows('2027-06: 2')
  await page.reload()
  await shows('2027-06: 2')
  assert.equal(await page.getByLabel('You are').inputValue(), 'dave')
})
