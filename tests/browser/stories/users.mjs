// A user with few permissions sees exactly what they may.
import assert from 'node:assert/strict'
import { open } from '../lib/browser.mjs'
import { NOTE, record } from '../lib/lexicons.mjs'
import { asUser, newAccount, onBoth } from '../world.mjs'

/** The names of the pages in the sidebar. */
export async function menu(page) {
  return page.getByRole('navigation', { name: 'Pages' }).getByRole('link').allInnerTexts()
}

onBoth('a user with few permissions sees what they may, and no more', async (newServer) => {
  const [alice, bob] = [await newAccount(), await newAccount()]
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  await asUser(server, alice, {}, async (page) => {
    const everything = await menu(page)
    for (const name of ['Users', 'API keys', 'Scripts', 'Settings', 'Plugins']) assert.ok(everything.includes(name), `${name} of ${everything}`)
    // The pages about the instance are behind one entry, and their addresses are what they were.
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Settings' }).click()
    await page.getByRole('navigation', { name: 'Settings' }).getByRole('link', { name: 'Domains' }).click()
    await page.getByRole('heading', { name: 'Domains' }).waitFor()
    assert.match(page.url(), /#\/domains$/)
    const current = page.getByRole('navigation', { name: 'Pages' }).locator('[aria-current]')
    assert.deepEqual(await current.allInnerTexts(), ['Settings'])
  })
  await server.api('POST', '/admin/users', { did: bob.did, permissions: ['lexicons:read', 'records:read', 'scripts:read'] })
  await asUser(server, bob, {}, async (page) => {
    const seen = await menu(page)
    assert.ok(seen.includes('Lexicons') && seen.includes('Records') && seen.includes('Scripts'), String(seen))
    for (const name of ['Users', 'API keys', 'API clients', 'Settings', 'Plugins', 'Dead letters']) assert.ok(!seen.includes(name), `${name} of ${seen}`)
    // By its address the page says what is missing.
    await page.goto(`${server.url}/dashboard/#/users`)
    await page.getByText('users:read').waitFor()
    // What they may not change is disabled, with the reason, and refused by the server.
    await open(page, `/lexicons/${NOTE}`)
    const remove = page.getByRole('button', { name: /^Delete/ })
    if (await remove.count()) assert.ok((await remove.first().getAttribute('aria-disabled')) === 'true' || (await remove.first().isDisabled()))
    const answer = await page.evaluate(() => fetch('../admin/lexicons/com.example.note', { method: 'DELETE' }).then((answer) => answer.status))
    assert.equal(answer, 403)
  })
})
