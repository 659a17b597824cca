#!/usr/bin/env node
// Runs the JavaScript blocks of docs/authentication.md as one program: `node docs.mjs '{"instance":…}'`.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { runOAuth } from './lib/oauth.mjs'

const { instance, clientKey, clientSecret, clientId, redirectUri, scopes, pds, users, handles, namespace, methods } = JSON.parse(process.argv[2])
const page = fs.readFileSync(new URL('../../docs/authentication.md', import.meta.url), 'utf8')
const blocks = [...page.matchAll(/```js\n([\s\S]*?)```/g)].map(([, block]) => block)
assert.ok(blocks.length >= 11)
const authorize = (key, handle = users[0].handle) => {
  const { password } = users.find((user) => user.handle === handle)
  return runOAuth({ pds, handle, password, key, scope: scopes, clientId, redirectUri })
}
const Program = Object.getPrototypeOf(async () => {}).constructor
const names = { instance, clientKey, clientSecret, methods, authorize, handles, namespace }
await new Program(...Object.keys(names), blocks.join('\n'))(...Object.values(names))
