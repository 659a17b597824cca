// How long pages keep the browser's main thread on a large instance. Prints the longest task of each page; the machine must be
// quiet, so it is no test.
//   node tests/browser/measure-large.mjs [RECORDS [CLIENTS [SCRIPTS]]]
import path from 'node:path'
import { Network as StandIns } from '../../examples/lib/network.mjs'
import { logIn, openBrowser, openPage, open } from './lib/browser.mjs'
import { query, record } from './lib/lexicons.mjs'
import { until } from './lib/until.mjs'
import { newAccount, newServer, stopAll } from './world.mjs'

const [records, clients, scripts] = [100_000, 1_000, 500].map((most, n) => Number(process.argv[n + 2] ?? most))
const AUTHORS = 500
const NOTE = 'com.example.note'
const BINARIES = process.env.CARGO_TARGET_DIR ?? path.join(process.env.HOME, '.cache/belvedere/target')

/** Runs `make` for 0 to `count` - 1, some at a time. */
async function many(count, make, atOnce = 8) {
  let next = 0
  const worker = async () => {
    while (next < count) await make(next++)
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
}

const standIns = await StandIns.start(path.join(BINARIES, 'debug/belvedere-network'))
const owner = await newAccount()
const server = await newServer({ owner, JETSTREAM_URL: standIns.addresses.jetstream })
const browser = await openBrowser()

async function fill() {
  await server.upload(record(NOTE, { text: { type: 'string' }, n: { type: 'integer' }, createdAt: { type: 'string', format: 'datetime' } }))
  const names = Array.from({ length: AUTHORS }, (_, n) => `person${n.toString(5).replace(/./g, (digit) => 'abcde'[digit])}`)
  for (const name of names) await standIns.account(name)
  const time = new Date().toISOString()
  await many(records, (n) => standIns.put(names[n % AUTHORS], NOTE, `note${n}`, { text: `Note ${n} of a long list`, n, createdAt: time }))
  await many(clients, (n) => server.api('POST', '/admin/api-clients', {
    name: `Client ${n}`, client_id_url: `https://app${n}.example/m.json`, client_uri: `https://app${n}.example`, redirect_uris: [`https://app${n}.example/c`],
  }))
  const lexicons = Array.from({ length: scripts }, (_, n) => ({ lexicon_json: query(`com.example.list${n}`), target_collection: NOTE, backfill: false }))
  await server.api('POST', '/admin/lexicons', { lexicons })
  await many(scripts, (n) => server.api('POST', '/admin/scripts', {
    id: `xrpc.query:com.example.list${n}`, body: `function handle()\n  return db.query({ collection = "${NOTE}", limit = ${(n % 50) + 1} })\nend\n`, description: `List ${n}`,
  }))
  await until('the records are indexed', async () => (await server.api('GET', '/admin/stats')).total_records >= records)
}

/** Lets the page note its long tasks. */
const note = () => {
  window.tasks = []
  new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: 'longtask', buffered: true })
}

/** Opens a page, scrolls to its end and back, and returns the milliseconds of its longest tasks. */
async function tasksOf(page, place) {
  await page.goto('about:blank')
  await open(page, place)
  await page.mouse.wheel(0, 20_000)
  await page.mouse.wheel(0, -20_000)
  const tasks = await page.evaluate(() => window.tasks)
  return tasks.map(Math.round).sort((a, b) => b - a).slice(0, 3)
}

try {
  await fill()
  const page = await openPage(browser, server)
  await logIn(page, owner)
  await page.addInitScript(note)
  const client = (await server.api('GET', '/admin/api-clients'))[0].id
  const places = [
    '/', '/records', `/records?collection=${NOTE}`, `/records?collection=${NOTE}&text=999`, '/collections', '/lexicons', '/lexicons/schema?namespace=com.example',
    `/lexicons/${NOTE}`, '/lexicons/com.example.list7', '/apps', '/apps/com.example', '/scripts', '/scripts/xrpc.query%3Acom.example.list7', '/clients',
    `/clients/${client}`, '/statistics', '/statistics?by=method', '/events', '/users', '/jobs', '/settings', '/sql',
  ]
  console.log(`${records} records, ${clients} clients, ${scripts} scripts; tasks of 50 ms or more:`)
  for (const place of places) {
    const tasks = await tasksOf(page, place)
    console.log(`${place}: ${tasks.length ? `${tasks.join(', ')} ms` : 'none'}`)
  }
} finally {
  await browser.close()
  standIns.stop()
  await stopAll()
}
