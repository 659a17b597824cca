// The instance gets a DID of its own, or that of an account, at the real directory.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { consent, DOWNLOADS, open, settled } from '../lib/browser.mjs'
import { asUser, network, newAccount, newServer } from '../world.mjs'

/** The document of a DID at the directory. */
async function documentOf(did) {
  const answer = await fetch(`${(await network()).plc}/${did}`)
  assert.equal(answer.status, 200, did)
  return answer.json()
}

test('a DID is registered at the directory', DOWNLOADS, async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/identity')
    await page.getByRole('radio', { name: /A did:plc of its own/ }).check()
    await page.getByRole('button', { name: 'Use this kind' }).click()
    // The key is kept before anything depends on it.
    const register = page.getByRole('button', { name: 'Register', exact: true })
    await register.waitFor()
    assert.equal(await register.getAttribute('aria-disabled'), 'true')
    const button = page.getByRole('button', { name: 'Download the rotation key' })
    const keyPath = '**/api/setup/rotation-key'
    await page.route(keyPath, (route) => route.fulfill({ status: 503, json: { error: 'the key is not there' } }))
    await button.click()
    await page.getByText('The key is not there').waitFor()
    assert.equal(await register.getAttribute('aria-disabled'), 'true', 'the download failed')
    await page.unroute(keyPath)
    const download = page.waitForEvent('download')
    await button.click()
    assert.equal((await download).suggestedFilename(), 'rotation-key.bin')
    await register.click()
    await page.getByText('is registered.').waitFor()
    await page.getByRole('button', { name: 'Complete the set-up' }).click()
    await page.getByText('The identity is set up.').waitFor()
    const { did } = await server.api('GET', '/admin/service-identity')
    await page.getByText(did).first().waitFor()
    await page.getByText('up to date').waitFor()
    const { service } = await documentOf(did)
    assert.ok(service.some(({ serviceEndpoint }) => serviceEndpoint === server.url), JSON.stringify(service))

    // A further service is not in the document until it is updated.
    await page.getByRole('tab', { name: 'Services' }).click()
    await page.getByPlaceholder('#my_service').fill('notes')
    await page.getByPlaceholder('MyService').fill('NotesService')
    await page.getByRole('button', { name: /^Add/ }).click()
    await page.getByRole('button', { name: 'Update the document' }).click()
    await page.getByText('The document is up to date.').waitFor()
    const updated = await documentOf(did)
    assert.ok(updated.service.some(({ id }) => id.endsWith('#notes')), JSON.stringify(updated))
  })
})

test('an account is attached, and a login that fails says why', async () => {
  const [alice, project, other] = [await newAccount(), await newAccount(), await newAccount()]
  const server = await newServer({ owner: alice })
  await server.api('POST', '/admin/service-entries', { fragment_id: '#notes', service_type: 'NotesService' })
  await asUser(server, alice, {}, async (page) => {
    await open(page, '/identity')
    await page.getByRole('radio', { name: /The DID of an account/ }).check()
    // The directory says that there is none. The domain of a handle may be silent, which is another answer.
    await page.getByLabel('Handle or DID of the account').fill('did:plc:aaaaaaaaaaaaaaaaaaaaaaaa')
    await page.getByRole('button', { name: 'Find it' }).click()
    await page.getByText('There is no such account').waitFor()
    await page.getByLabel('Handle or DID of the account').fill('nobody.test')
    await page.getByRole('button', { name: 'Find it' }).click()
    await page.getByText('its domain does not answer').waitFor()
    await page.getByLabel('Handle or DID of the account').fill(project.handle)
    await page.getByRole('button', { name: 'Find it' }).click()
    await page.getByText(project.did).first().waitFor()
    await page.getByRole('button', { name: 'Attach this account' }).click()
    await page.getByText(`Chosen: ${project.did}`).waitFor()

    // Before the login the reason is that of the server, and the operator stays logged in.
    await page.getByRole('button', { name: 'Send the code' }).click()
    await page.getByText(`Log in as ${project.did} first`).waitFor()

    // The owner declines: the page says so.
    await page.getByRole('button', { name: 'Log in with the account' }).click()
    await page.waitForURL(/\/oauth\/authorize/)
    await page.locator('input[name="password"], input[type="password"]').first().fill(project.password)
    await page.locator('button[type="submit"]').first().click()
    await page.getByRole('button', { name: /deny|cancel|reject/i }).first().click()
    await page.waitForURL((url) => url.href.startsWith(page.base))
    await settled(page)
    await page.getByRole('alert').getByText('The login was declined').waitFor()
    await page.waitForURL((url) => url.hash.startsWith('#/identity'))

    await page.getByRole('button', { name: 'Log in with the account' }).click()
    await consent(page, project)
    await settled(page)
    await page.getByRole('button', { name: 'Send the code' }).click()
    await page.getByText('The code is sent').waitFor()
    const field = page.getByLabel('Code', { exact: true })
    await field.fill('WRONG-CODE1')
    await page.getByRole('button', { name: 'Use the code' }).click()
    await page.getByText(/the account’s PDS refused|the account's PDS refused|token/i).first().waitFor()
    const { code } = await (await network()).tell('/plc-code', { did: project.did })
    await field.fill(code)
    await page.getByRole('button', { name: 'Use the code' }).click()
    await page.getByText('The identity is set up.').waitFor()
    const { service } = await documentOf(project.did)
    assert.ok(service.some(({ serviceEndpoint }) => serviceEndpoint === server.url), JSON.stringify(service))

    // The operator is themselves again.
    await open(page, '/account')
    await page.getByText(alice.did).first().waitFor()
    assert.equal(await page.getByText(other.did).count(), 0)
  })
})
