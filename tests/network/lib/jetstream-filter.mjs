// The filter of a Jetstream client: collections (with prefixes), DIDs, a maximal size.
const NSID = /^[a-zA-Z]([a-zA-Z0-9-]{0,62})?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,62})?)+\.[a-zA-Z][a-zA-Z0-9]{0,62}$/
const DID = /^did:[a-z]+:[a-zA-Z0-9._:%-]*[a-zA-Z0-9._-]$/
/** Limits of production servers; a client that exceeds them is refused. */
const MAX_COLLECTIONS = 100
const MAX_DIDS = 10_000

export class BadOptions extends Error {}

export function parseFilter({ collections = [], dids = [], max }) {
  const exact = new Set()
  const prefixes = []
  for (const collection of collections) {
    if (collection.endsWith('.*')) prefixes.push(collection.slice(0, -1))
    else if (NSID.test(collection)) exact.add(collection)
    else throw new BadOptions(`invalid collection: ${collection}`)
  }
  if (exact.size + prefixes.length > MAX_COLLECTIONS) throw new BadOptions(`too many wanted collections: > ${MAX_COLLECTIONS}`)
  for (const did of dids) if (!DID.test(did)) throw new BadOptions(`invalid DID: ${did}`)
  if (dids.length > MAX_DIDS) throw new BadOptions('too many wanted DIDs')
  const size = Number.parseInt(max, 10)
  return { all: collections.length === 0, exact, prefixes, dids: dids.length ? new Set(dids) : null, maxBytes: size > 0 ? size : Infinity }
}

/** Identity and account events pass every collection filter, as they do in production. */
export function wants(filter, event) {
  if (filter.dids && !filter.dids.has(event.did)) return false
  if (event.kind !== 'commit' || filter.all) return true
  return filter.exact.has(event.collection) || filter.prefixes.some((prefix) => event.collection.startsWith(prefix))
}
