// Starts the real PDS, and creates accounts on it.
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { Secp256k1Keypair } from '@atproto/crypto'
import { PDS, envToCfg, envToSecrets } from '@atproto/pds'

export const ADMIN_PASSWORD = 'admin-pass'
const hex = (bytes) => Buffer.from(bytes).toString('hex')

/** `name`: that of its folder in `data`. */
export async function startPds({ port, plcUrl, data, rotation, name = 'pds' }) {
  const dataDirectory = path.join(data, name)
  fs.mkdirSync(dataDirectory, { recursive: true })
  const env = {
    devMode: true, port, hostname: 'localhost', serviceName: 'test PDS', dataDirectory, blobstoreDiskLocation: path.join(data, `${name}-blobs`),
    didPlcUrl: plcUrl, recoveryDidKey: (await Secp256k1Keypair.create()).did(), plcRotationKeyK256PrivateKeyHex: hex(await rotation.export()),
    adminPassword: ADMIN_PASSWORD, jwtSecret: 'jwt-secret', dpopSecret: hex(randomBytes(32)),
    serviceHandleDomains: ['.test'], handleBackupNameservers: [], inviteRequired: false, acceptingImports: true,
    disableSsrfProtection: true, crawlers: [], rateLimitsEnabled: false, rateLimitBypassIps: [], trustedOAuthClients: [],
  }
  const pds = await PDS.create(envToCfg(env), envToSecrets(env))
  await pds.start()
  // The code that the PDS sent to an account's owner for a change of the DID document. There is no mail server.
  const plcCode = async (did) => {
    const { db } = pds.ctx.accountManager.db
    const codes = db.selectFrom('email_token').select('token').where('did', '=', did).where('purpose', '=', 'plc_operation')
    return (await codes.executeTakeFirstOrThrow()).token
  }
  return { url: `http://localhost:${port}`, plcCode, stop: () => pds.destroy() }
}

export async function createAccount({ pdsUrl, dns, name }) {
  const handle = `${name}.test`
  const password = `${name}-password`
  const answer = await fetch(`${pdsUrl}/xrpc/com.atproto.server.createAccount`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ handle, email: `${name}@example.com`, password }),
  })
  const body = await answer.json()
  if (!answer.ok) throw new Error(`createAccount ${handle}: ${answer.status} ${JSON.stringify(body)}`)
  dns.set(`_atproto.${handle}`, [`did=${body.did}`])
  return { handle, password, did: body.did, accessJwt: body.accessJwt }
}
