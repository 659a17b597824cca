#!/usr/bin/env node
// The reference OAuth client, unmodified, as the client that our metadata describes: what we say of ourselves is what it
// takes and what the PDS lets in. `node own_client.mjs '{"instance":…}'`.
import assert from 'node:assert/strict'
import { NodeOAuthClient } from '@atproto/oauth-client-node'
import { signInAndConsent } from './lib/oauth-user.mjs'

const { instance, plc, pds, user } = JSON.parse(process.argv[2])
const store = () => {
  const data = new Map()
  return { get: async (key) => data.get(key), set: async (key, value) => void data.set(key, value), del: async (key) => void data.delete(key) }
}
const answer = await fetch(`${instance}/oauth-client-metadata.json`)
assert.equal(answer.status, 200)
const clientMetadata = await answer.json()
const client = new NodeOAuthClient({
  clientMetadata, stateStore: store(), sessionStore: store(), plcDirectoryUrl: plc, handleResolver: pds, allowHttp: true,
  requestLock: (_, work) => work(),
})
const url = await client.authorize(user.handle, { scope: clientMetadata.scope })
const back = new URL(await signInAndConsent(url.href, { username: user.handle, password: user.password }))
assert.equal(back.origin + back.pathname, `${instance}/auth/callback`)
const { session } = await client.callback(back.searchParams)
assert.equal(session.did, user.did)
const who = await session.fetchHandler('/xrpc/com.atproto.server.getSession')
assert.equal((await who.json()).did, user.did)
// What it began, our server does not end: the state is not one of ours.
const foreign = await fetch(back, { redirect: 'manual' })
assert.equal(foreign.headers.get('location'), '/login?error=expired')
await session.signOut()
console.log(JSON.stringify({ client_id: clientMetadata.client_id }))
