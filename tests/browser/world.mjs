// What all stories share: one network, one browser. Each story has a server of its own.
import { after, test } from 'node:test'
import { logIn, openBrowser, openPage } from './lib/browser.mjs'
import { Network } from './lib/network.mjs'
import { POSTGRES, Server } from './lib/server.mjs'

/** A function that calls `make` once, when it is needed first. */
export function once(make) {
  let made
  return () => (made ??= make())
}

const started = []
/** Starts something that is stopped after the last story. */
const startOnce = (start, stop) => once(async () => {
  const running = await start()
  started.unshift(() => stop(running))
  return running
})

export const network = startOnce(() => Network.start(), (running) => running.stop())
export const browser = startOnce(openBrowser, (running) => running.close())

let accounts = 0

/** Stops what was started. The stories do it at their end. */
export async function stopAll() {
  for (const stop of started.splice(0)) await stop()
}

after(stopAll)

/** A new account on the PDS. */
export async function newAccount() {
  accounts += 1
  return (await network()).account(`person${accounts}`)
}

async function startServer({ owner, ...more }, stops) {
  const server = await Server.create(await network(), more)
  stops.unshift(() => server.remove())
  await server.start()
  if (owner) server.useKeyOf(owner.did)
  return server
}

/** A running server. With `owner` it is claimed by that account, whose key `server.api` uses. */
export const newServer = (options = {}) => startServer(options, started)

/** A story that runs on both databases. It gets a function that starts a server, as `newServer`, and the database's name. */
export function onBoth(name, story, options = {}) {
  for (const database of ['sqlite', ...(POSTGRES ? ['postgres'] : [])]) {
    test(`${name} (${database})`, options, async () => {
      const stops = []
      try {
        await story((options) => startServer({ ...options, database }, stops), database)
      } finally {
        // The database has connections for some servers only.
        for (const stop of stops) await stop()
      }
    })
  }
}

/** Runs `story` in a page. A story that fails tells what the page showed. */
export async function inPage(server, options, story) {
  const page = await openPage(await browser(), server, options)
  try {
    await story(page)
  } catch (error) {
    const text = await page.locator('body').innerText().catch(() => '')
    if (process.env.BROWSER_SCREENSHOT) await page.screenshot({ path: process.env.BROWSER_SCREENSHOT, fullPage: true }).catch(() => {})
    console.error(`at ${page.url()}:\n${text.slice(0, 2000)}\n${page.problems.join('\n')}\n${server.log().slice(-1500)}`)
    throw error
  }
  if (page.problems.length) throw new Error(`the page had problems:\n${page.problems.join('\n')}`)
  await page.context().close()
}

/** The same with the owner logged in. */
export async function asUser(server, account, options, story) {
  await inPage(server, options, async (page) => {
    await logIn(page, account)
    await story(page)
  })
}
