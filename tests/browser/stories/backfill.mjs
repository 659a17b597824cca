// A backfill is planned, started, and followed to its end.
import assert from 'node:assert/strict'
import { BROWSER, open } from '../lib/browser.mjs'
import { record } from '../lib/lexicons.mjs'
import { asUser, newAccount, onBoth } from '../world.mjs'

onBoth('a backfill reads what exists, and its page shows the progress', async (newServer, database) => {
  // A backfill finds what the story on the other database wrote.
  const NOTE = `com.example.backfilled.${database}`
  const [alice, bob] = [await newAccount(), await newAccount()]
  const server = await newServer({ owner: alice })
  for (const n of [1, 2, 3]) await bob.put(NOTE, `old${n}`, { text: `older note ${n}` })
  await server.upload(record(NOTE))
  await asUser(server, alice, {}, async (page) => {
    await open(page, `/backfill?collection=${NOTE}`)
    // Without an estimate it asks first.
    await page.getByRole('button', { name: 'Start backfill' }).click()
    await page.getByRole('dialog').getByText('Start without an estimate?').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('dialog').waitFor({ state: 'hidden' })
    await page.getByRole('button', { name: 'Estimate' }).click()
    await page.getByText('To download').waitFor()
    const sent = page.waitForRequest((request) => request.method() === 'POST' && request.url().endsWith('/admin/backfill'))
    await page.getByRole('button', { name: 'Start backfill' }).click()
    // No relay can make it list many more repos than were counted. Firefox does not show who drives it what is sent.
    const body = (await sent).postDataJSON()
    if (BROWSER === 'chromium') assert.equal(body.max_repos, 1_001)
    // The page of the backfill, live until it has ended.
    await page.getByText(/completed/i).first().waitFor()
    await page.getByRole('tab', { name: 'Repos' }).click()
    await page.getByRole('tabpanel').getByTitle(bob.did).first().waitFor()
    await page.getByRole('button', { name: 'Remove details' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove details' }).click()
    await page.getByText('No repos.').waitFor()
    await open(page, `/records?collection=${NOTE}`)
    for (const n of [1, 2, 3]) await page.getByText(`older note ${n}`).waitFor()
  })
})
