// An operator looks after spaces without seeing their records, until an inspection shows these and says so.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open } from '../lib/browser.mjs'
import { asUser, newAccount, newServer } from '../world.mjs'

const KIND = 'com.example.group'

test('an operator sees a space, inspects its records with a grant, and deletes it', async () => {
  const [alice, bob] = [await newAccount(), await newAccount()]
  const server = await newServer({ owner: alice })
  const { client_key: key } = await server.api('POST', '/admin/api-clients', {
    name: 'Groups', client_id_url: 'https://app.example/m.json', client_uri: 'https://app.example', redirect_uris: ['https://app.example/c'],
  })
  await asUser(server, alice, {}, async (page) => {
    const call = async (method, body) => {
      const answer = await page.evaluate(async ([method, key, body]) => {
        const headers = { 'content-type': 'application/json', 'x-client-key': key }
        const answer = await fetch(`/xrpc/com.atproto.${method}`, { method: 'POST', headers, body: JSON.stringify(body) })
        return [answer.status, await answer.json()]
      }, [method, key, body])
      assert.equal(answer[0], 200, JSON.stringify(answer))
      return answer[1]
    }
    const navigation = page.getByRole('navigation', { name: 'Pages' })

    // The pages appear with the feature.
    await open(page, '/features')
    assert.equal(await navigation.getByRole('link', { name: 'Spaces' }).count(), 0)
    await page.getByRole('button', { name: 'Switch on' }).click()
    await navigation.getByRole('link', { name: 'Spaces' }).click()
    await page.getByText('No spaces.').waitFor()

    const { uri: space } = await call('simplespace.createSpace', { spaceType: KIND, skey: 'friends' })
    await call('simplespace.putMember', { space, did: bob.did, read: true, write: false })
    await call('space.createRecord', { space, collection: 'com.example.note', rkey: 'one', record: { text: 'only for friends' } })

    // An address is found as it is typed, also that of a record.
    await page.reload()
    const search = page.getByLabel('Address, authority or creator')
    await search.pressSequentially(`${space}/${alice.did}`, { delay: 5 })
    await page.getByText('Type a whole address or DID.').waitFor()
    await search.pressSequentially('/com.example.note/one', { delay: 5 })
    await page.getByRole('link', { name: /riends$/ }).click()
    await page.getByRole('heading', { name: `${KIND}/friends` }).waitFor()
    assert.equal(await page.getByText('only for friends').count(), 0)

    // A member goes, and the space gets a name.
    await page.getByRole('button', { name: `Remove ${bob.did}` }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove the member' }).click()
    await page.getByText('The member is removed.').waitFor()
    await page.getByLabel(/^Name/).fill('Friends')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { name: 'Friends' }).waitFor()

    // An inspection needs the setting, a grant with a reason, and a click for each page.
    await page.getByRole('link', { name: 'Inspect', exact: true }).click()
    const dialog = page.getByRole('dialog')
    assert.equal(await dialog.getByLabel('Space or account').inputValue(), space)
    assert.ok(await dialog.getByRole('button', { name: 'Grant it' }).isDisabled())
    await dialog.getByLabel('Reason').fill('Report 7')
    await dialog.getByRole('button', { name: 'Grant it' }).click()
    await dialog.getByText(/Inspections are switched off/).waitFor()
    await server.api('PUT', '/admin/settings/space_inspector_enabled', { value: 'true' })
    await dialog.getByRole('button', { name: 'Grant it' }).click()
    await page.getByText('running').waitFor()
    await page.getByText('Nothing here.').waitFor()
    assert.equal(await page.getByText('only for friends').count(), 0)
    await page.getByRole('button', { name: 'Show records' }).click()
    await page.getByText('"only for friends"').waitFor()
    await page.getByRole('button', { name: 'space.records_inspected' }).click()
    await dialog.getByText(`${space}/${alice.did}/com.example.note/one`).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'End it now' }).click()
    await page.getByText('revoked').waitFor()
    assert.equal(await page.getByRole('button', { name: 'Show records' }).count(), 0)

    // The space is deleted by its name.
    await page.getByRole('link', { name: /riends$/ }).click()
    await page.getByRole('button', { name: 'Delete…' }).click()
    const remove = dialog.getByRole('button', { name: 'Delete the space' })
    assert.ok(await remove.isDisabled())
    await dialog.getByRole('textbox').pressSequentially('friends', { delay: 20 })
    await remove.click()
    await page.getByText('No spaces.').waitFor()
    assert.deepEqual((await server.api('GET', '/admin/spaces')).spaces, [])
  })
})
