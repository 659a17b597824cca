#!/usr/bin/env node
// The owner of a repo follows an invite link in a real browser: through our page, the PDS's own pages, and back.
// `node browser.mjs '{"link":…,"user":…}'`.
import assert from 'node:assert/strict'
import { chromium } from 'playwright-core'
import { CHROMIUM } from './chromium.mjs'

const { link, user } = JSON.parse(process.argv[2])
const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']
const browser = await chromium.launch({ executablePath: CHROMIUM, args })
try {
  const page = await browser.newPage()
  const problems = []
  page.on('console', (message) => { if (message.type() === 'error' && page.url().includes('/link/')) problems.push(message.text()) })
  await page.goto(link)
  assert.match(new URL(page.url()).pathname, /^\/link\/start$/)
  assert.match(await page.title(), /^Link your repo to /)
  assert.match(await page.locator('main').innerText(), /to announce/)
  // Fields have labels, and the form works from the keyboard.
  await page.getByLabel('Your handle').fill(user.handle)
  await page.keyboard.press('Enter')
  await page.waitForURL(/\/oauth\/authorize/)

  // On the PDS's pages: sign in and consent.
  await page.locator('input[name="password"], input[type="password"]').first().fill(user.password)
  await page.locator('button[type="submit"]').first().click()
  await page.getByRole('button', { name: /authorize|accept|allow/i }).first().click()
  await page.waitForURL(/\/link\/result/)
  assert.equal(new URL(page.url()).searchParams.get('status'), 'success')
  assert.equal(await page.locator('h1').innerText(), 'Done')
  assert.deepEqual(problems, [])
} catch (error) {
  const page = browser.contexts()[0]?.pages()[0]
  console.error(page?.url(), await page?.locator('body').innerText().catch(() => ''))
  console.error((await page?.content().catch(() => ''))?.slice(-3000))
  throw error
} finally {
  await browser.close()
}
console.log('{}')
