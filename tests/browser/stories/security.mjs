// Nothing that came from others is rendered as HTML, no other page can frame or call the dashboard, and the CSP holds.
import assert from 'node:assert/strict'
import http from 'node:http'
import { once } from 'node:events'
import { test } from 'node:test'
import { checkWidth, open, settled } from '../lib/browser.mjs'
import { NOTE } from '../lib/lexicons.mjs'
import { until } from '../lib/until.mjs'
import { asUser, inPage, newAccount, newServer } from '../world.mjs'

/** Markup that would run, in any place that shows it as HTML. */
const MARKUP = '"\'><img src=x onerror="window.hacked=1"><script>window.hacked=1</script><svg onload="window.hacked=1">'

/** A page of another origin. */
async function otherOrigin(html) {
  const server = http.createServer((request, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(html))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { url: `http://localhost:${server.address().port}/`, close: () => { server.closeAllConnections(); server.close() } }
}

test('values of records, lexicons, scripts and logs are shown as text', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  const properties = { text: { type: 'string', description: MARKUP }, [MARKUP]: { type: 'string' } }
  const main = { type: 'record', key: 'any', description: MARKUP, record: { type: 'object', description: MARKUP, properties } }
  await server.upload({ lexicon: 1, id: NOTE, description: MARKUP, defs: { main } })
  const script = `-- ${MARKUP}\nfunction handle() log([[${MARKUP}]]) error([[${MARKUP}]]) end`
  await server.api('POST', '/admin/scripts', { id: `record.index:${NOTE}`, body: script, description: MARKUP.slice(0, 250) })
  const uri = await alice.put(NOTE, 'hostile', { text: MARKUP, [MARKUP]: MARKUP, deep: { [MARKUP]: [MARKUP, { a: MARKUP }] } })
  await until('the letter is there', async () => (await server.api('GET', '/admin/dead-letters/count')).count === 1)
  await server.api('POST', '/admin/api-clients', { name: MARKUP.slice(0, 100), client_id_url: 'https://app.example/m.json', client_uri: 'https://app.example', redirect_uris: ['https://app.example/c'] })
  await server.api('PUT', '/admin/settings/app_name', { value: MARKUP.slice(0, 60) }).catch(() => {})
  await asUser(server, alice, {}, async (page) => {
    const [letter] = (await server.api('GET', '/admin/dead-letters')).dead_letters
    const places = [
      '/', `/records?collection=${NOTE}`, `/records?collection=${NOTE}&uri=${encodeURIComponent(uri)}`, `/records/why?uri=${encodeURIComponent(uri)}`,
      `/lexicons/${NOTE}`, '/lexicons', '/events', `/scripts/${encodeURIComponent(`record.index:${NOTE}`)}`, '/scripts', '/dead-letters',
      `/dead-letters/${letter.id}`, '/clients', '/collections', '/settings', '/statistics', `/records?collection=${encodeURIComponent(MARKUP)}`,
      `/login?error=${encodeURIComponent(MARKUP)}`,
    ]
    for (const place of places) {
      await open(page, place)
      await settled(page)
      const found = await page.evaluate(() => ({ hacked: window.hacked, elements: document.querySelectorAll('img[src="x"], svg[onload], main script').length }))
      assert.deepEqual(found, { hacked: undefined, elements: 0 }, place)
      await checkWidth(page, place)
    }
    await open(page, `/dead-letters/${letter.id}`)
    await page.getByText('onerror="window.hacked=1"').first().waitFor()
  })
})

test('the pages have a strict content security policy, which holds', async () => {
  const server = await newServer()
  const answer = await fetch(`${server.url}/dashboard/`)
  const policy = answer.headers.get('content-security-policy')
  for (const part of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "connect-src 'self'"]) {
    assert.ok(policy.includes(part), policy)
  }
  assert.ok(!/unsafe|\*/.test(policy), policy)
  assert.equal(answer.headers.get('x-content-type-options'), 'nosniff')
  assert.equal(answer.headers.get('x-frame-options'), 'DENY')
  await inPage(server, {}, async (page) => {
    await page.goto(`${server.url}/dashboard/`)
    await settled(page)
    const ran = await page.evaluate(async () => {
      const refused = []
      const all = new Promise((done) => {
        document.addEventListener('securitypolicyviolation', (event) => { if (refused.push(event.effectiveDirective) === 3) done() })
      })
      const script = document.createElement('script')
      script.textContent = 'window.injected = 1'
      document.body.append(script)
      const button = document.createElement('button')
      button.setAttribute('onclick', 'window.injected = 2')
      document.body.append(button)
      button.click()
      await fetch('https://example.com/').catch(() => {})
      await all
      return { injected: window.injected, refused }
    })
    assert.deepEqual(ran, { injected: undefined, refused: ['script-src-elem', 'script-src-attr', 'connect-src'] })
    // These were the violations that the test made.
    page.problems.length = 0
  })
})

test('another origin can neither frame the dashboard nor use its session', async () => {
  const alice = await newAccount()
  const server = await newServer({ owner: alice })
  const key = 'SET_BY_OTHERS'
  const body = JSON.stringify({ key, value: 'x' })
  const html = `<iframe src="${server.url}/dashboard/"></iframe>
    <form method="post" enctype="text/plain" action="${server.url}/admin/script-variables"><input name='${body.slice(0, -1)},"a":"' value='"}'></form>`
  const other = await otherOrigin(html)
  try {
    await asUser(server, alice, {}, async (page) => {
      await page.goto(other.url)
      await until('the browser shows its own page in the frame instead', async () => page.frames().some((frame) => /^(chrome-error|about:neterror)/.test(frame.url())))
      const answered = await page.evaluate(async ({ url, body }) => {
        const send = async (options) => fetch(`${url}/admin/script-variables`, { method: 'POST', credentials: 'include', body, ...options }).then((answer) => answer.type === 'opaque' ? 'opaque' : answer.status, () => 'refused')
        return [await send({ mode: 'no-cors' }), await send({ headers: { 'content-type': 'application/json' } }),
          await fetch(`${url}/auth/me`, { credentials: 'include' }).then((answer) => answer.text(), () => 'refused')]
      }, { url: server.url, body })
      assert.equal(answered[1], 'refused')
      assert.equal(answered[2], 'refused')
      await page.evaluate(() => document.forms[0].submit())
      await page.waitForURL((url) => url.href.startsWith(server.url))
      assert.deepEqual((await server.api('GET', '/admin/script-variables')).map((one) => one.key), [])
      page.problems.length = 0
    })
  } finally {
    other.close()
  }
})
