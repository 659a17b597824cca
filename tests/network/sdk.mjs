#!/usr/bin/env node
// Runs the unmodified published SDKs against a running server: `node sdk.mjs '{"instance":…}'`. The fetch function that they
// are given adds the Origin header of a browser and replaces DNS over HTTPS and plc.directory. Prints one line of JSON.
import assert from 'node:assert/strict'
import { HappyViewOAuthClient } from '@happyview/oauth-client'
import { HappyViewBrowserClient } from '@happyview/oauth-client-browser'
import { createAgent } from '@happyview/lex-agent'
import { runOAuth } from './lib/oauth.mjs'
import { signInAndConsent } from './lib/oauth-user.mjs'

const { instance, plc, pds, user, other, page, confidential, methods } = JSON.parse(process.argv[2])
const origin = 'https://app.example'

function browserFetch(input, init = {}) {
  const url = String(input?.url ?? input)
  if (url.startsWith('https://dns.google/resolve')) {
    const name = new URL(url).searchParams.get('name')
    const Answer = [{ name, type: 16, TTL: 60, data: `"did=${user.did}"` }]
    return Promise.resolve(Response.json({ Status: 0, Answer }, { headers: { 'content-type': 'application/dns-json' } }))
  }
  if (url.startsWith('https://plc.directory/')) return fetch(plc + new URL(url).pathname, init)
  const headers = new Headers(init.headers)
  if (url.startsWith(instance)) headers.set('origin', origin)
  return fetch(url, { ...init, headers })
}

class Storage {
  data = new Map()
  async get(key) { return this.data.get(key) ?? null }
  async set(key, value) { this.data.set(key, value) }
  async delete(key) { this.data.delete(key) }
}

const json = async (answer, status = 200) => {
  const text = await answer.text()
  assert.equal(answer.status, status, text)
  return text ? JSON.parse(text) : null
}
const post = (agent, method, body) => agent.fetchHandler(`/xrpc/${method}`, {
  method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body),
})

// A web page logs in, writes, reads, and registers an API client for its user.
const storage = new Storage()
const options = { instanceUrl: instance, clientKey: page.clientKey, clientId: page.clientId, redirectUri: page.redirectUri, scopes: page.scopes, storage, fetch: browserFetch }
const client = new HappyViewBrowserClient(options)
const login = async () => {
  const { authorizationUrl } = await client.prepareLogin(user.handle)
  return client.callback(new URL(await signInAndConsent(authorizationUrl, { username: user.handle, password: user.password })).search)
}
const first = await login()
assert.equal(first.did, user.did)
const agent = createAgent(first)
const { uri } = await json(await post(agent, methods.put, { text: 'from the SDK' }))
const listed = await json(await agent.fetchHandler(`/xrpc/${methods.list}?uri=${encodeURIComponent(uri)}`, { method: 'GET' }))
assert.equal(listed.record.text, 'from the SDK')
const child = { name: 'child', clientIdUrl: `https://child.example/${Date.now()}`, clientUri: 'https://child.example', redirectUris: ['https://child.example/back'] }
const made = await json(await post(agent, 'dev.happyview.createApiClient', child), 201)
assert.equal((await json(await agent.fetchHandler('/xrpc/dev.happyview.listApiClients', { method: 'GET' }))).clients[0].id, made.client.id)

// The standard methods go to the user's PDS, and what they write is indexed at once.
const record = { $type: methods.note, text: 'standard' }
const created = await json(await post(agent, 'com.atproto.repo.createRecord', { repo: user.did, collection: methods.note, record }))
const read = async (uri) => agent.fetchHandler(`/xrpc/${methods.list}?uri=${encodeURIComponent(uri)}`, { method: 'GET' })
assert.equal((await json(await read(created.uri))).record.text, 'standard')
const rkey = created.uri.split('/').at(-1)
await json(await post(agent, 'com.atproto.repo.putRecord', { repo: user.did, collection: methods.note, rkey, record: { ...record, text: 'put' } }))
assert.equal((await json(await read(created.uri))).record.text, 'put')
const upload = await agent.fetchHandler('/xrpc/com.atproto.repo.uploadBlob', { method: 'POST', headers: { 'content-type': 'image/png' }, body: new Uint8Array([1, 2, 3]) })
assert.equal((await json(upload)).blob.mimeType, 'image/png')
const stored = await json(await agent.fetchHandler(`/xrpc/com.atproto.repo.getRecord?repo=${user.did}&collection=${methods.note}&rkey=${rkey}`, { method: 'GET' }))
assert.equal(stored.value.text, 'put')
await json(await post(agent, 'com.atproto.repo.deleteRecord', { repo: user.did, collection: methods.note, rkey }))
await json(await read(created.uri), 404)
const foreign = await post(agent, 'com.atproto.repo.createRecord', { repo: other.did, collection: methods.note, record })
await json(foreign, 400)
const profile = async (query) => json(await agent.fetchHandler(`/xrpc/app.bsky.actor.getProfile${query}`, { method: 'GET' }))
assert.equal((await profile('')).handle, user.handle)
assert.equal((await profile(`?actor=${other.handle}`)).did, other.did)

// The page restores the session, and logs in again, which ends the earlier session.
const later = await new HappyViewBrowserClient(options).restore(user.did)
await json(await later.fetchHandler(`/xrpc/${methods.list}`, { method: 'GET' }))
const second = await login()
assert.equal((await first.fetchHandler(`/xrpc/${methods.list}`, { method: 'GET' })).status, 401)
await json(await second.fetchHandler(`/xrpc/${methods.list}`, { method: 'GET' }))
await client.logout(user.did)
assert.equal((await second.fetchHandler(`/xrpc/${methods.list}`, { method: 'GET' })).status, 401)
assert.equal(await client.restore(user.did), null)

// A confidential client runs its own OAuth flow with the provisioned key.
const server = new HappyViewOAuthClient({ instanceUrl: instance, clientKey: confidential.clientKey, clientSecret: confidential.clientSecret })
const key = await server.provisionDpopKey()
const tokens = await runOAuth({ pds, handle: user.handle, password: user.password, key: key.rawJwk, scope: confidential.scopes, clientId: confidential.clientId, redirectUri: confidential.redirectUri })
const session = await server.registerSession({
  provisionId: key.provisionId, did: user.did, accessToken: tokens.access_token, refreshToken: tokens.refresh_token,
  scopes: tokens.scope, pdsUrl: pds, issuer: tokens.issuer, dpopKey: key.rawJwk,
})
await json(await post(session, methods.put, { uri, text: 'from a server' }))
await server.deleteSession(user.did)
assert.equal((await session.fetchHandler(`/xrpc/${methods.list}`, { method: 'GET' })).status, 401)

console.log(JSON.stringify({ uri }))
