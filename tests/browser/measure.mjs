// How long the dashboard takes on a slow phone: from the navigation until a page can be used. Prints the times; the machine must
// be quiet, so it is no test.
//   node tests/browser/measure.mjs [RUNS]
import { openBrowser, openPage, logIn, PHONE, settled } from './lib/browser.mjs'
import { newAccount, newServer, stopAll } from './world.mjs'

/** As Lighthouse's "slow 4G" and its phone: milliseconds, bytes a second, and how many times slower the processor is. */
const NETWORK = { offline: false, latency: 150, downloadThroughput: 1_638_400 / 8, uploadThroughput: 750_000 / 8 }
const CPU = 4

const runs = Number(process.argv[2] ?? 5)
const owner = await newAccount()
const server = await newServer({ owner })
const browser = await openBrowser()

/**
 * The time from the navigation until `selector` is there. Nothing is in the browser's cache, unless `again`. The page measures it
 * itself: the scripts by which playwright looks at a page take longer than the page, at a quarter of the processor's speed.
 */
async function measure(page, place, selector, again) {
  const session = await page.context().newCDPSession(page)
  await session.send('Network.enable')
  if (!again) await session.send('Network.clearBrowserCache')
  await session.send('Network.emulateNetworkConditions', NETWORK)
  await session.send('Emulation.setCPUThrottlingRate', { rate: CPU })
  await page.goto('about:blank')
  const watching = await session.send('Page.addScriptToEvaluateOnNewDocument', {
    source: `new MutationObserver((_, observer) => {
      if (!document.querySelector(${JSON.stringify(selector)})) return
      observer.disconnect()
      requestAnimationFrame(() => setTimeout(() => console.debug('usable', performance.now())))
    }).observe(document, { childList: true, subtree: true })`,
  })
  await session.send('Page.enable')
  const usable = page.waitForEvent('console', (line) => line.text().startsWith('usable'))
  await page.goto(`${server.url}/dashboard/#${place}`, { waitUntil: 'commit' })
  const took = Number((await usable).text().split(' ')[1])
  await settled(page)
  const bytes = await page.evaluate(() => performance.getEntries().reduce((sum, entry) => sum + (entry.transferSize ?? 0), 0))
  await session.send('Page.removeScriptToEvaluateOnNewDocument', watching)
  await session.detach()
  return { took, bytes }
}

async function report(what, page, place, selector, { again = false } = {}) {
  const found = []
  for (let run = 0; run < runs; run += 1) found.push(await measure(page, place, selector, again))
  const times = found.map(({ took }) => Math.round(took)).sort((a, b) => a - b)
  console.log(`${what}: ${times[Math.floor(runs / 2)]} ms (${times.join(', ')}), ${Math.round(found[0].bytes / 1000)} kB`)
}

try {
  const out = await openPage(browser, server, { viewport: PHONE })
  await report('login', out, '/', 'input[autocomplete="username"]')
  const page = await openPage(browser, server, { viewport: PHONE })
  await logIn(page, owner)
  await report('overview, its heading', page, '/', 'main h1')
  await report('overview, its numbers', page, '/', 'main a strong')
  await report('lexicons', page, '/lexicons', 'main h1')
  // Who has a session has logged in here, so that most files are in the browser's cache.
  await report('lexicons, again', page, '/lexicons', 'main h1', { again: true })
  await measure(page, '/', 'main a strong')
  await report('overview, its heading, again', page, '/', 'main h1', { again: true })
  await report('overview, its numbers, again', page, '/', 'main a strong', { again: true })
} finally {
  await browser.close()
  await stopAll()
}
