#!/usr/bin/env node
// Runs the unmodified reference OAuth client with the server's own client metadata: the client and the PDS must accept
// it. `node own_client.mjs '{"instance":…}'`.
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
// The server rejects the callback of a flow that it did not start: it does not know the state.
const foreign = await fetch(back, { redirect: 'manual' })
assert.equal(foreign.headers.get('location'), '/login?error=expired')
await session.signOut()
console.log(JSON.stringify({ client_id: clientMetadata.client_id }))
