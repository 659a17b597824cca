// Debian's Chromium or Firefox, and pages that notice what must not happen on any page of the dashboard.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { createRequire } from 'node:module'
import { chromium, firefox } from 'playwright-core'
import { CHROMIUM } from '../../network/chromium.mjs'
import { until } from './until.mjs'

/** The browser in which the stories are told: `chromium` or `firefox`. */
export const BROWSER = process.env.BELVEDERE_TEST_BROWSER ?? 'chromium'
const FIREFOX = '/usr/bin/firefox-esr'
/** A page may read the clipboard unasked, which Chromium is told for each page, and a field that a driver fills is input too. */
const FIREFOX_SETTINGS = { 'dom.events.testing.asyncClipboard': true, 'dom.require_user_interaction_for_beforeunload': false }
const ARGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--force-color-profile=srgb', '--font-render-hinting=none',
]
const AXE = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** The option of a story that waits for a download: Firefox does not tell who drives it of the blobs that it saves. */
export const DOWNLOADS = { skip: BROWSER === 'firefox' && 'no downloads of Firefox are reported' }

/** The page of a PDS on which an account agrees. */
const AUTHORIZE = /\/oauth\/authorize/

/** How long a click or an expected text may take. */
const PATIENCE = 30_000

export const DESKTOP = { width: 1440, height: 900 }
export const PHONE = { width: 360, height: 740 }

export async function openBrowser() {
  // Firefox is driven by WebDriver BiDi: Playwright's own protocol needs a build of its own.
  if (BROWSER === 'firefox') return firefox.launch({ channel: 'moz-firefox', executablePath: FIREFOX, firefoxUserPrefs: FIREFOX_SETTINGS })
  return chromium.launch({ executablePath: CHROMIUM, args: ARGS })
}

/** A page of its own profile, with the problems that it had. */
export async function openPage(browser, server, { viewport = DESKTOP, colorScheme = 'light' } = {}) {
  const context = await browser.newContext({ viewport, colorScheme, reducedMotion: 'reduce', locale: 'en-GB', timezoneId: 'UTC' })
  // The clipboard of "copy" buttons.
  if (BROWSER === 'chromium') await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: server.url })
  context.setDefaultTimeout(PATIENCE)
  const page = await context.newPage()
  const problems = []
  const isOurs = () => page.url().startsWith(server.url)
  page.on('pageerror', (error) => isOurs() && problems.push(`error: ${error.message}`))
  page.on('dialog', (dialog) => {
    // The browser's own question before unsaved input is left. Stories that are about it answer it themselves.
    if (dialog.type() === 'beforeunload') return void dialog.accept().catch(() => {})
    problems.push(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('console', (message) => {
    // A refused request is an answer that the page shows; the browser logs it too.
    const isAnswer = /Failed to load resource/.test(message.text())
    if (message.type() === 'error' && isOurs() && !isAnswer) problems.push(message.text())
  })
  // Requests without an answer yet. Streams of events have none until they end.
  const waiting = new Set()
  page.on('request', (request) => {
    // Requests of the page before have no end when it is left.
    if (request.isNavigationRequest() && request.frame() === page.mainFrame()) waiting.clear()
    if (!isStream(request)) waiting.add(request)
  })
  for (const end of ['requestfinished', 'requestfailed']) page.on(end, (request) => waiting.delete(request))
  return Object.assign(page, { problems, base: server.url, waiting })
}

/** Whether a request is for a stream of events. Firefox does not tell who drives it what a request is for. */
export const isStream = (request) => /\/stream$/.test(new URL(request.url()).pathname)

/** Opens a place of the dashboard and waits until it shows something. */
export async function open(page, place = '/') {
  await page.goto(`${page.base}/dashboard/#${place}`)
  await settled(page)
}

/** Waits until the page has its heading, and has shown the answers to its requests. */
export async function settled(page) {
  await page.locator('h1').first().waitFor()
  await until('the page has its answers', async () => {
    const before = page.waiting.size
    // Two frames: an answer may lead to further requests.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
    return before === 0 && page.waiting.size === 0
  })
}

/**
 * Logs in. The page ends where it wanted to go. The account agrees without the PDS's own pages, which take as long as most of a
 * story: `consent` is for the stories that are about them.
 */
export async function logIn(page, account, place = '/') {
  const agree = async (route) => {
    const location = await account.consent(route.request().url())
    await route.fulfill({ status: 303, headers: { location } })
  }
  await page.route(AUTHORIZE, agree)
  await page.goto(`${page.base}/dashboard/#${place}`)
  await page.getByLabel(/handle/i).fill(account.handle)
  await page.keyboard.press('Enter')
  await page.waitForResponse((response) => new URL(response.url()).pathname.endsWith('/auth/callback'))
  await page.unroute(AUTHORIZE, agree)
  await settled(page)
}

/** On the PDS's pages: signs in and agrees. */
export async function consent(page, account) {
  await page.waitForURL(AUTHORIZE)
  // By keys: in Firefox the PDS's form does not notice a value that is set.
  const password = page.locator('input[name="password"], input[type="password"]').first()
  await password.pressSequentially(account.password)
  await password.press('Enter')
  await page.getByRole('button', { name: /authorize|accept|allow/i }).first().click()
  await page.waitForURL((url) => url.href.startsWith(page.base))
}

/** Fails if axe finds anything on the page. `only`: the one rule that is checked. */
export async function checkAccessibility(page, name, only) {
  // Not by a script element: the CSP of the page forbids those.
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(AXE)
  const options = { resultTypes: ['violations'], ...(only && { runOnly: { type: 'rule', values: [only] } }) }
  const results = await page.evaluate((options) => window.axe.run(document, options), options)
  assert.ok(results.passes.length > (only ? 0 : 5), `axe looked at nothing on ${name}`)
  const found = results.violations.map(({ id, help, nodes }) => `${id}: ${help}\n    ${nodes.map((node) => node.target.join(' ')).join('\n    ')}`)
  assert.deepEqual(found, [], `axe on ${name}`)
}

/** Fails if the page is wider than its window. */
export async function checkWidth(page, name) {
  const overflow = await page.evaluate(() => {
    const width = document.documentElement.clientWidth
    if (document.documentElement.scrollWidth <= width) return []
    const wide = [...document.querySelectorAll('main *')].filter((element) => element.getBoundingClientRect().right > width + 1)
    return wide.slice(0, 3).map((element) => element.outerHTML.slice(0, 120))
  })
  assert.deepEqual(overflow, [], `${name} is wider than its window`)
}
