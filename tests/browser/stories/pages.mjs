// Every page: axe finds nothing, nothing is wider than the window, light and dark, on a phone and on a desktop. The
// screenshots of docs/ are made here with BROWSER_SCREENSHOTS=docs/screenshots.
import fs from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { checkAccessibility, checkWidth, DESKTOP, logIn, open, openPage, PHONE, settled } from '../lib/browser.mjs'
import { fillDay } from '../lib/history.mjs'
import { query, record } from '../lib/lexicons.mjs'
import { until } from '../lib/until.mjs'
import { browser, network, newServer, once } from '../world.mjs'

const NOTE = 'org.example.notes.note'
const LIST = 'org.example.notes.listNotes'
const PROFILE = 'app.bsky.actor.profile'

/** Where screenshots go; none without it. */
const SCREENSHOTS = process.env.BROWSER_SCREENSHOTS

const LAPTOP = { width: 1200, height: 750 }

/** A window in which a script has its dry run beside it. */
const WIDE = { width: 1440, height: 860 }

/** Bytes of a screenshot in the repository. */
const MAX_SCREENSHOT = 180_000

/** Pages that docs/ shows. */
const SHOWN = { '/': 'overview', '/records': 'records', '/scripts/:id': 'script', '/events': 'events', '/lexicons/:id': 'lexicon', '/backfill': 'backfill' }

/** A server on which every page has something to show, and the places of all pages. */
const prepared = once(async () => {
  const person = async (name, displayName) => {
    const account = await (await network()).account(name)
    await account.put(PROFILE, 'self', { displayName })
    return account
  }
  const owner = await (await network()).account('alice')
  const server = await newServer({ owner })
  for (const nsid of [NOTE, PROFILE]) await server.upload(record(nsid))
  await server.upload(query(LIST), { target_collection: NOTE })
  await owner.put(PROFILE, 'self', { displayName: 'Alice Liddell' })
  const friends = [await person('bob', 'Bob Builder'), await person('carol', 'Carol Danvers')]
  const id = `record.index:${NOTE}`
  const body = 'function handle()\n  if record.text == "bad" then\n    error("this note can not be indexed")\n  end\n  record.n = #record.text\n  return record\nend\n'
  await server.api('POST', '/admin/scripts', { id, body, description: 'Counts the characters of notes' })
  const texts = ['Good morning', 'A longer note that has a few more words than the others, to see how it is cut', 'bad', 'Grüße', 'Καλημέρα']
  for (const [n, text] of texts.entries()) await owner.put(NOTE, `note${n}`, { text })
  for (const friend of friends) await friend.put(NOTE, 'reply', { text: 'Thank you, I will be there on Sunday' })
  const client = await server.api('POST', '/admin/api-clients', {
    name: 'Notes for the phone', client_id_url: 'https://app.example/m.json', client_uri: 'https://app.example', redirect_uris: ['https://app.example/c'],
  })
  for (let n = 0; n < 20; n += 1) await fetch(`${server.url}/xrpc/${LIST}`, { headers: { 'x-client-key': client.client_key } })
  if (SCREENSHOTS) {
    fillDay(server, [
      { metric: 'stream_events', mean: 5_400 },
      { metric: 'requests', label: LIST, mean: 1_900, millis: 0.9 },
      { metric: 'requests', label: 'com.atproto.identity.resolveHandle', mean: 420, millis: 3 },
    ])
  }
  await server.api('POST', '/admin/script-variables', { key: 'API_KEY', value: 'not a real key' })
  const alert = { metric: 'error_rate', condition: 'above', threshold: 5, minutes: 10, target: 'log' }
  await server.api('POST', '/admin/alerts', { ...alert, name: 'Too many errors', label: LIST })
  await until('the records are there', async () => (await server.api('GET', '/admin/stats')).total_records === texts.length + 2 * friends.length + 1)
  const [first, second] = friends
  await server.api('POST', '/admin/users', { did: first.did, template: 'viewer' })
  await server.api('POST', '/admin/moderation', { subject: second.uri(NOTE, 'reply'), action: 'hide', reason: 'Reported by a member' })
  const [letter] = (await server.api('GET', '/admin/dead-letters')).dead_letters
  const started = await server.api('POST', '/admin/backfill', { collection: NOTE })
  for (const key of ['feature.spaces_enabled', 'space_inspector_enabled']) await server.api('PUT', `/admin/settings/${key}`, { value: 'true' })
  const subject = owner.did
  const inspection = await server.api('POST', '/admin/spaces/inspections', { scope: 'account', subject, reason: 'Report 7', expires_in: 3600 })
  const users = await server.api('GET', '/admin/users')
  const user = (users.users ?? users)[0]
  const of = (path, params) => Object.entries(params).reduce((text, [name, value]) => text.replace(`:${name}`, encodeURIComponent(value)), path)
  const params = {
    '/lexicons/:id': { id: NOTE }, '/scripts/:id': { id }, '/dead-letters/:id': { id: letter.id }, '/backfill/:id': { id: started.job_id ?? started.id },
    '/clients/:id': { id: client.id }, '/apps/:app': { app: 'org.example' }, '/users/:id': { id: user.id },
  }
  const places = new Map(
    [
      '/', '/start', '/records', '/records/why', '/collections', '/lexicons', '/lexicons/new', '/lexicons/schema', '/apps', '/compare', '/events', '/statistics', '/statistics?by=method&window=1h&compare=1', '/statistics?by=alerts', '/account', '/backfill',
      '/moderation', '/moderation?decide=yes', '/scripts', '/scripts/new', '/script-variables', '/dead-letters', '/jobs', '/sql', '/labelers', '/database', '/clients', '/clients/new', '/users',
      '/api-keys', '/linked-repos', '/plugins', '/plugins/new', '/settings', '/features', '/network-rules', '/domains', '/identity', '/instance-keys',
      '/spaces', '/inspections', `/inspections?id=${inspection.id}`, ...Object.keys(params),
    ].map((route) => [route, route === '/records' ? `/records?collection=${NOTE}` : of(route, params[route] ?? {})]),
  )
  return { owner, server, places }
})

async function screenshot(page, route, colors) {
  const name = SHOWN[route]
  if (!SCREENSHOTS || !name) return
  const file = path.join(SCREENSHOTS, `${name}-${colors}.png`)
  fs.mkdirSync(SCREENSHOTS, { recursive: true })
  // As wide as a laptop's window, so that texts are legible in docs/.
  await page.setViewportSize(name === 'script' ? WIDE : LAPTOP)
  await settled(page)
  await page.screenshot({ path: file, animations: 'disabled' })
  await page.setViewportSize(DESKTOP)
  const { size } = fs.statSync(file)
  if (size > MAX_SCREENSHOT) throw new Error(`${file} has ${size} bytes`)
}

for (const [colors, viewport] of [['light', DESKTOP], ['dark', DESKTOP], ['light', PHONE], ['dark', PHONE]]) {
  test(`every page is accessible and fits: ${colors}, ${viewport.width} px`, async () => {
    const { owner, server, places } = await prepared()
    const page = await openPage(await browser(), server, { colorScheme: colors, viewport })
    await logIn(page, owner)
    const problems = []
    for (const [route, place] of places) {
      try {
        await open(page, place)
        await settled(page)
        await checkWidth(page, route)
        if (viewport === DESKTOP) await screenshot(page, route, colors)
        // A dark page differs from a light one in its colours only.
        await checkAccessibility(page, route, colors === 'dark' ? 'color-contrast' : undefined)
      } catch (error) {
        problems.push(`${route}: ${error.message}`)
      }
    }
    problems.push(...page.problems)
    await page.context().close()
    if (problems.length) throw new Error(problems.join('\n'))
  })
}

test('charts follow the width of the window', async () => {
  const { owner, server } = await prepared()
  const page = await openPage(await browser(), server)
  await logIn(page, owner, '/statistics')
  await page.locator('figure canvas').first().waitFor()
  await page.setViewportSize({ width: 800, height: 900 })
  await until('the drawing is as narrow as its card', () => page.evaluate(() =>
    [...document.querySelectorAll('figure')].every((figure) => {
      const right = figure.getBoundingClientRect().right
      return [...figure.querySelectorAll('canvas')].every((canvas) => canvas.getBoundingClientRect().right <= right)
    })))
  await page.context().close()
})

test('the login page is accessible and fits', async () => {
  const { server } = await prepared()
  for (const colorScheme of ['light', 'dark']) {
    for (const viewport of [DESKTOP, PHONE]) {
      const page = await openPage(await browser(), server, { colorScheme, viewport })
      await page.goto(`${server.url}/dashboard/`)
      await settled(page)
      await checkAccessibility(page, 'login')
      await checkWidth(page, 'login')
      await page.context().close()
    }
  }
})
