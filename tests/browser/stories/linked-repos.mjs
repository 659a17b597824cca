// The owner of a repo follows a link, and scripts may write there.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { consent, open } from '../lib/browser.mjs'
import { asUser, inPage, newAccount, newServer } from '../world.mjs'

test('a repo is linked by a link for its owner, and by the owner in this browser', async () => {
  const [alice, bob] = [await newAccount(), await newAccount()]
  const server = await newServer({ owner: alice })
  const grants = async () => (await server.api('GET', '/admin/linked-repos')).linked_repos
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/linked-repos')
    await page.getByRole('button', { name: 'Link a repo' }).first().click()
    await page.getByLabel(/^Handle or DID/).fill(bob.handle)
    await page.getByLabel('Scopes').fill('atproto repo:com.example.note')
    await page.getByLabel(/^Reason/).fill('Our news are posted there')
    await page.getByRole('button', { name: 'Create the grant' }).click()
    await page.getByText('pending').first().waitFor()
    await page.getByRole('button', { name: 'Create a link for the owner' }).click()
    const link = await page.getByRole('dialog').getByText(/\/linked-repo\/start\?token=/).innerText()
    await page.keyboard.press('Escape')
    await page.getByText('Links that still work').waitFor()

    // The owner's own browser.
    await inPage(server, {}, async (theirs) => {
      await theirs.goto(link)
      await theirs.getByText('Our news are posted there').waitFor()
      await theirs.getByText('repo:com.example.note').first().waitFor()
      await theirs.getByRole('button', { name: 'Go to my server' }).click()
      await consent(theirs, bob)
      await theirs.getByText('Your repo is linked').waitFor()
    })
    await page.reload()
    await page.getByText('active', { exact: true }).first().waitFor()
    await page.getByText(bob.did).first().waitFor()
    assert.deepEqual((await grants()).map(({ did, status }) => [did, status]), [[bob.did, 'active']])

    // One's own repo needs no link.
    await open(page, '/linked-repos')
    await page.getByRole('button', { name: 'Link a repo' }).first().click()
    await page.getByLabel(/^Handle or DID/).fill(alice.did)
    await page.getByLabel('Scopes').fill('atproto repo:com.example.note')
    await page.getByRole('button', { name: 'Create the grant' }).click()
    await page.getByRole('button', { name: 'Authorize in this browser' }).click()
    await consent(page, alice)
    await page.waitForURL((url) => url.hash.startsWith('#/linked-repos/'))
    await page.getByText('active', { exact: true }).first().waitFor()
    assert.equal((await grants()).filter(({ status }) => status === 'active').length, 2)
  })
})
