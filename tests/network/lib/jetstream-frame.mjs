// Converts raw com.atproto.sync.subscribeRepos frames to Jetstream events.
import { cborDecode, cborDecodeMulti } from '@atproto/common'
import { readCar } from '@atproto/repo'

/** DAG-CBOR values in the JSON form of the atproto data model. */
function toJson(value) {
  if (value === null || typeof value !== 'object') return typeof value === 'bigint' ? Number(value) : value
  if (value instanceof Uint8Array) return { $bytes: Buffer.from(value).toString('base64').replace(/=+$/, '') }
  if (Array.isArray(value)) return value.map(toJson)
  if (value.asCID !== undefined || (value.code !== undefined && value.multihash !== undefined)) return { $link: value.toString() }
  return Object.fromEntries(Object.entries(value).filter(([, v]) => v !== undefined).map(([k, v]) => [k, toJson(v)]))
}

/** The events of one frame: { kind, did, collection?, body, upstreamSeq }. */
export async function decodeFrame(bytes) {
  const [header, body] = cborDecodeMulti(new Uint8Array(bytes))
  if (header.op === -1) throw new Error(`error frame from the PDS: ${JSON.stringify(body)}`)
  if (header.t === '#commit') return commitEvents(body)
  if (header.t === '#identity' || header.t === '#account' || header.t === '#sync') {
    // The blocks of a sync event are the commit, which consumers don't get.
    delete body.blocks
    return [{ kind: header.t.slice(1), did: body.did, body: toJson(body), upstreamSeq: body.seq }]
  }
  return []
}

async function commitEvents(body) {
  const { blocks } = body.ops.length && body.blocks?.length ? await readCar(body.blocks) : { blocks: new Map() }
  const events = []
  for (const op of body.ops) {
    const [collection, rkey] = op.path.split('/')
    const commit = { rev: body.rev, operation: op.action, collection, rkey }
    if (op.action !== 'delete') {
      const block = blocks.get(op.cid)
      if (!block) continue
      commit.record = toJson(cborDecode(block))
      commit.cid = op.cid.toString()
    }
    events.push({ kind: 'commit', did: body.repo, collection, body: commit, upstreamSeq: body.seq })
  }
  return events
}
