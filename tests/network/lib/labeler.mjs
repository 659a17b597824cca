// A labeler with its own did:plc; its labels are signed with the #atproto_label key of that DID.
import path from 'node:path'
import { Secp256k1Keypair } from '@atproto/crypto'
import plc from '@did-plc/lib'
import { LabelerServer } from '@skyware/labeler'
import { HOST } from './loopback.mjs'

export async function startLabeler({ port, plcUrl, pdsUrl, data, rotation }) {
  const key = await Secp256k1Keypair.create({ exportable: true })
  const url = `http://localhost:${port}`
  const genesis = await plc.addSignature({
    type: 'plc_operation', prev: null, rotationKeys: [rotation.did()], alsoKnownAs: ['at://labeler.test'],
    verificationMethods: { atproto: key.did(), atproto_label: key.did() },
    services: {
      atproto_pds: { type: 'AtprotoPersonalDataServer', endpoint: pdsUrl },
      atproto_labeler: { type: 'AtprotoLabeler', endpoint: url },
    },
  }, rotation)
  const did = await plc.didForCreateOp(genesis)
  await new plc.Client(plcUrl).sendOperation(did, genesis)
  const server = new LabelerServer({ did, signingKey: Buffer.from(await key.export()).toString('hex'), dbPath: path.join(data, 'labels.db') })
  await new Promise((done, fail) => server.start({ port, host: HOST }, (error) => (error ? fail(error) : done())))
  return { did, url, label: (label) => server.createLabel(label), stop: () => new Promise((done) => server.close(done)) }
}
