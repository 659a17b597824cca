#!/usr/bin/env node
// Starts a small real atproto network on loopback: PLC directory, PDS, Jetstream, relay, DNS, labeler.
// Prints the addresses as one line of JSON. Runs until SIGTERM, or with --stdin until its standard input is closed, so that
// it can't outlive a test runner that was killed.
//   node up.mjs [--accounts alice,bob] [--data DIR] [--stdin]
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { confine, freePort, useDns } from './lib/loopback.mjs'

const { values: options } = parseArgs({ options: { accounts: { type: 'string', default: 'alice,bob' }, data: { type: 'string' }, stdin: { type: 'boolean' } } })
const data = options.data ?? fs.mkdtempSync(path.join(os.tmpdir(), 'belvedere-network-'))
const log = (...words) => console.error(new Date().toISOString(), ...words)

confine()
const { startDns } = await import('./lib/dns.mjs')
const dnsPort = await freePort()
const dns = await startDns({ port: dnsPort })
useDns(dnsPort)

// Imported only now: these modules bind the functions that were replaced above.
const { Secp256k1Keypair } = await import('@atproto/crypto')
const { default: plcServer } = await import('@did-plc/server')
const { Jetstream } = await import('./lib/jetstream.mjs')
const { startRelay } = await import('./lib/relay.mjs')
const { ADMIN_PASSWORD, createAccount, startPds } = await import('./lib/pds.mjs')
const { startLabeler } = await import('./lib/labeler.mjs')
const { dpopFetch, runOAuth } = await import('./lib/oauth.mjs')
const { signInAndConsent } = await import('./lib/oauth-user.mjs')
const { startControl } = await import('./lib/control.mjs')

const plcPort = await freePort()
const plc = plcServer.PlcServer.create({ db: plcServer.Database.mock(), port: plcPort })
await plc.start()
const plcUrl = `http://localhost:${plcPort}`

const rotation = await Secp256k1Keypair.create({ exportable: true })
const pds = await startPds({ port: await freePort(), plcUrl, data, rotation })
// Outside the stream and the relay: a PDS whose users' records only it has.
const otherPds = await startPds({ port: await freePort(), plcUrl, data, rotation, name: 'other-pds' })
const jetstream = new Jetstream({ upstream: pds.url.replace('http', 'ws'), port: await freePort(), log })
const jetstreamUrl = await jetstream.start()
/** Further Jetstream servers by URL, for tests that disturb theirs. */
const ownJetstreams = new Map()
const relay = await startRelay({ pdsUrl: pds.url, port: await freePort() })
const labeler = await startLabeler({ port: await freePort(), plcUrl, pdsUrl: pds.url, data, rotation })

const accounts = []
for (const name of options.accounts.split(',').filter(Boolean)) accounts.push(await createAccount({ pdsUrl: pds.url, dns, name }))

const control = await startControl({
  port: await freePort(),
  routes: {
    'POST /account': ({ name, pds: pdsUrl = pds.url }) => createAccount({ pdsUrl, dns, name }),
    'POST /plc-code': async ({ did }) => ({ code: await pds.plcCode(did) }),
    'POST /dns': ({ name, txt }) => { if (txt === null) dns.delete(name); else dns.set(name, [txt].flat()) },
    'POST /label': (label) => labeler.label(label), // { uri, val, cid?, neg?, exp? }
    // Runs an app's flow: { handle, password, key, scope, clientId, redirectUri } to tokens. The key is the DPoP key.
    'POST /oauth': async (options) => {
      const { refresh, nonces, dpop_jwk, ...tokens } = await runOAuth({ pds: pds.url, ...options })
      return tokens
    },
    // Calls a server with an app's session: { key, url, accessToken } to the response's status.
    'POST /as-app': async ({ key, url, accessToken }) => ({ status: (await dpopFetch(key, url, { accessToken })).status }),
    // Acts as a user who follows an authorization URL: { url, username, password, approve? } to the redirect's URL.
    'POST /consent': async ({ url, ...user }) => ({ url: await signInAndConsent(url, user) }),
    'POST /jetstream/drop': () => jetstream.drop(),
    'POST /jetstream/pause': ({ on }) => jetstream.pause(on),
    'GET /jetstream': () => jetstream.stats(),
    'POST /jetstream/start': async () => {
      const own = new Jetstream({ upstream: pds.url.replace('http', 'ws'), port: await freePort(), log })
      const url = await own.start()
      ownJetstreams.set(url, own)
      return { url }
    },
    'POST /jetstream/forget': ({ url }) => ownJetstreams.get(url).forget(),
  },
})

console.log(JSON.stringify({
  plc: plcUrl, pds: pds.url, otherPds: otherPds.url, pdsAdminPassword: ADMIN_PASSWORD, jetstream: jetstreamUrl, relay: relay.url, dns: dns.address,
  labeler: { did: labeler.did, url: labeler.url }, control: control.url, accounts,
}))

let stopping = false
async function stop() {
  if (stopping) return
  stopping = true
  setTimeout(() => process.exit(0), 4000).unref() // a PDS that hangs must not hang the tests
  await Promise.allSettled([control, jetstream, ...ownJetstreams.values(), relay, labeler, dns].map((server) => server.stop()))
  await Promise.allSettled([pds.stop(), otherPds.stop(), plc.destroy()])
  if (!options.data) fs.rmSync(data, { recursive: true, force: true })
  process.exit(0)
}
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, stop)
if (options.stdin) process.stdin.on('end', stop).resume()
