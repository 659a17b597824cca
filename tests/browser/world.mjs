// What all stories share: one network, one browser. Each story has a server of its own.
import { after, before } from 'node:test'
import { logIn, openBrowser, openPage } from './lib/browser.mjs'
import { Network } from './lib/network.mjs'
import { Server } from './lib/server.mjs'

export const world = { network: null, browser: null }

let accounts = 0
const servers = []

before(async () => {
  ;[world.network, world.browser] = await Promise.all([Network.start(), openBrowser()])
})

after(async () => {
  await world.browser?.close()
  for (const server of servers) await server.remove()
  await world.network?.stop()
})

/** A new account on the PDS. */
export async function newAccount() {
  accounts += 1
  return world.network.account(`person${accounts}`)
}

/** A running server. With `owner` it is claimed by that account, whose key `server.api` uses. */
export async function newServer({ owner, ...more } = {}) {
  const server = await Server.create(world.network, more)
  servers.push(server)
  await server.start()
  if (owner) server.useKeyOf(owner.did)
  return server
}

/** Runs `story` in a page. A story that fails tells what the page showed. */
export async function inPage(server, options, story) {
  const page = await openPage(world.browser, server, options)
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
