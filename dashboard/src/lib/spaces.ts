import { part } from '../api/paths'
import { href, pathOf } from './route'

/** The parts of the address of a space, or of a record in one: `at://DID/space/TYPE/KEY/…`. */
const ADDRESS = /^at:\/\/([^/]+)\/space\/([^/]+)\/([^/]+)(?:\/[^/]+\/[^/]+\/[^/]+)?$/

/** The address of the space that an address names or is in; null for another text. */
export function spaceOf(uri: string): string | null {
  const [, did, type, skey] = ADDRESS.exec(uri) ?? []
  return did && type && skey ? `at://${did}/space/${type}/${skey}` : null
}

/** The path of a space in the API. */
export function apiPath(uri: string) {
  const [, did = '', type = '', skey = ''] = ADDRESS.exec(uri) ?? []
  return `/admin/spaces/${part(did)}/${part(type)}/${part(skey)}` as const
}

/** The page of the space that an address names or is in. */
export function spacePage(uri: string): string | undefined {
  const space = spaceOf(uri)
  return space ? href(pathOf('/spaces/:uri', { uri: space })) : undefined
}
