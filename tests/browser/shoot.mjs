import { openBrowser, openPage, settled, checkAccessibility, checkWidth, PHONE, DESKTOP } from './lib/browser.mjs'
const browser = await openBrowser()
const only = process.argv[2] ?? ''
const go = async (page, place) => { await page.goto(`http://127.0.0.1:5199/#${place}`); await settled(page) }
const run = async (page, sql) => { await page.locator('.cm-content').click(); await page.keyboard.press('ControlOrMeta+a'); await page.keyboard.insertText(sql); await page.keyboard.press('ControlOrMeta+Enter'); await page.waitForTimeout(1200) }
const scenes = {
  sqlempty: async (page) => go(page, '/sql'),
  sqlrows: async (page) => { await go(page, '/sql'); await run(page, "SELECT uri, record ->> 'text' AS text, record, indexed_us, cid, valid\nFROM records\nORDER BY indexed_at DESC") },
  sqlplan: async (page) => { await page.getByRole('button', { name: 'Explain' }).click(); await page.waitForTimeout(800) },
  sqlerror: async (page) => { await run(page, 'SELECT uri\nFROM records WHERE )') },
  sqlhistory: async (page) => { await page.getByRole('tab', { name: 'History' }).click() },
  jobs: async (page) => { await go(page, '/jobs'); await page.getByRole('button', { name: 'Start job…' }).click(); await page.waitForTimeout(500); await page.getByLabel('Input').fill('{"name": '); await page.waitForTimeout(300) },
  script: async (page) => { await page.keyboard.press('Escape'); await go(page, '/scripts/job.run%3Agreet') },
  tryform: async (page) => { await go(page, '/lexicons/com.example.putNote?tab=try') ; await page.waitForTimeout(500)},
  tryjson: async (page) => { await page.getByRole('tab', { name: 'JSON' }).click(); await page.getByRole('textbox', { name: 'Input' }).fill('{"text": "hello", "n": 3}'); await page.getByRole('button', { name: 'Call it…' }).click(); await page.waitForTimeout(300) },
  trydone: async (page) => { await page.getByRole('dialog').getByRole('button', { name: 'Call it' }).click(); await page.waitForTimeout(1500) },
  events: async (page) => { await page.evaluate(() => sessionStorage.clear()); await page.reload(); await go(page, '/events'); await page.waitForTimeout(500) },
  palette: async (page) => { await page.keyboard.press('ControlOrMeta+k'); await page.keyboard.type('retention', { delay: 20 }); await page.waitForTimeout(500) },
  setting: async (page) => { await go(page, '/settings?setting=backfill_retention_days'); await page.waitForTimeout(500) },
}
for (const [color, viewport] of [['light', DESKTOP], ['dark', DESKTOP], ['light', PHONE], ['dark', PHONE]]) {
  if (only && !`${color}${viewport.width}`.match(only)) continue
  const page = await openPage(browser, { url: 'http://127.0.0.1:5199' }, { viewport, colorScheme: color })
  for (const [name, scene] of Object.entries(scenes)) {
    try { await scene(page); await page.screenshot({ path: `/tmp/wt/run7.shots/${name}-${color}-${viewport.width}.png` }); await checkWidth(page, name); await checkAccessibility(page, name) } catch (e) { console.log(color, viewport.width, name, String(e.message).slice(0, 500)) }
  }
  console.log(page.problems)
  await page.context().close()
}
await browser.close()
