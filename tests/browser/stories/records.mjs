// Records are found by what an operator knows of them, and new ones appear without moving what is being read.
import assert from 'node:assert/strict'
import { open, settled } from '../lib/browser.mjs'
import { record } from '../lib/lexicons.mjs'
import { until } from '../lib/until.mjs'
import { asUser, newAccount, onBoth } from '../world.mjs'

const NOTE = 'com.example.listed.note'

onBoth('records are found by account, key, fields and time', async (newServer) => {
  const [alice, bob] = [await newAccount(), await newAccount()]
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  // Records of one batch are indexed at the same time, and their order is not that of the stream.
  const indexed = (count) =>
    until(`${count} are indexed`, async () => (await server.api('GET', '/admin/stats')).total_records === count)
  await alice.put(NOTE, 'one', { text: 'apples and pears', n: 1 })
  await indexed(1)
  await alice.put(NOTE, 'two', { text: 'plums', n: 2 })
  await indexed(2)
  await bob.put(NOTE, 'one', { text: '100% apples', n: 3 })
  await indexed(3)
  await asUser(server, alice, {}, async (page) => {
    await open(page, `/records?collection=${NOTE}`)
    const rows = page.locator('tbody tr')
    const sees = (...texts) => until(`it shows ${texts}`, async () => {
      const found = await rows.allInnerTexts()
      return found.length === texts.length && texts.every((text, at) => found[at].includes(text))
    })
    const search = page.getByLabel('Account or record')
    await sees('100% apples', 'plums', 'apples and pears')
    await search.fill(`@${bob.handle}`)
    await sees('100% apples')
    await search.fill(alice.uri(NOTE, 'two'))
    await sees('plums')
    await page.waitForURL((url) => url.hash.includes(`repo=${encodeURIComponent(alice.did)}`) && url.hash.includes('rkey=two'))
    await search.fill('one')
    await sees('100% apples', 'apples and pears')
    await search.fill('')
    await page.getByLabel('Fields').fill('text contains "100%" and n > 2')
    await sees('100% apples')

    // The filter is kept under a name, and applied again.
    await page.getByRole('button', { name: 'Save filter' }).click()
    await page.getByRole('dialog').getByRole('textbox').fill('Full of apples')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor({ state: 'hidden' })
    await page.getByLabel('Fields').fill('')
    await sees('100% apples', 'plums', 'apples and pears')
    await page.getByLabel('Saved filters').selectOption('Full of apples')
    await sees('100% apples')
    await page.reload()
    await settled(page)
    await sees('100% apples')

    await page.getByLabel('Fields').fill('text hello')
    await page.getByRole('alert').getByText('Write conditions as').waitFor()
    await page.getByLabel('Fields').fill('')
    await page.getByLabel('Indexed before').fill('2020-01-01T00:00')
    await page.getByText('No records match the filter').waitFor()
    await page.getByRole('button', { name: 'Show all' }).click()
    await sees('100% apples', 'plums', 'apples and pears')
    await page.getByLabel('Label').fill('spam')
    await page.getByText('No records match the filter').waitFor()

    // What is typed stays as it is when its filter returns from the address.
    const fields = page.getByLabel('Fields')
    await fields.fill('')
    await fields.pressSequentially('text contains ')
    await page.waitForURL((url) => new URLSearchParams(url.hash.split('?')[1]).get('where') === 'text contains')
    await page.getByRole('alert').getByText('Write conditions as').waitFor()
    assert.equal(await fields.inputValue(), 'text contains ')

    // A link to a record that is not here says so, and leads to the reason.
    const gone = alice.uri(NOTE, 'gone')
    await open(page, `/records?collection=${NOTE}&uri=${encodeURIComponent(gone)}`)
    await page.getByRole('status').getByText('is not indexed').waitFor()
    await page.getByRole('status').getByRole('link', { name: 'Why is a record missing?' }).click()
    const field = page.getByLabel('URI of the record')
    await until('the field has the URI', async () => (await field.inputValue()) === gone)
    const other = alice.uri(NOTE, 'one')
    await open(page, `/records/why?uri=${encodeURIComponent(other)}`)
    await until('the field follows the address', async () => (await field.inputValue()) === other)
  })
})

onBoth('new records appear, but not while the list is being read', async (newServer) => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  await server.upload(record(NOTE))
  for (let n = 0; n < 30; n += 1) await alice.put(NOTE, `old${n}`, { text: `older note ${n}` })
  await until('they are indexed', async () => (await server.api('GET', '/admin/stats')).total_records === 30)
  await asUser(server, alice, {}, async (page) => {
    await open(page, `/records?collection=${NOTE}`)
    await alice.put(NOTE, 'new1', { text: 'a note that is new' })
    await page.getByText('a note that is new').waitFor()

    // Farther down nothing moves.
    const last = page.getByText('older note 0', { exact: false }).last()
    await last.scrollIntoViewIfNeeded()
    const before = await last.boundingBox()
    await alice.put(NOTE, 'new2', { text: 'another new note' })
    const button = page.getByRole('button', { name: '1 new record' })
    await button.waitFor()
    assert.deepEqual(await last.boundingBox(), before)
    assert.equal(await page.getByText('another new note').count(), 0)
    await button.click()
    await page.getByText('another new note').waitFor()

    await page.getByRole('button', { name: 'Pause' }).click()
    await page.getByText('Paused', { exact: true }).waitFor()
    await alice.put(NOTE, 'new3', { text: 'written while it was paused' })
    await until('it is indexed', async () => (await server.api('GET', '/admin/stats')).total_records === 33)
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.getByText('written while it was paused').waitFor()
  })
})
