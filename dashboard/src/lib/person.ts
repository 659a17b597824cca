import { call } from '../api/client'
import type { Person } from '../api/models/access'
import { People } from './people.svelte'
import { session } from './session.svelte'

async function ask(dids: string[]): Promise<Person[]> {
  const query = dids.map((did) => `did=${encodeURIComponent(did)}`).join('&')
  return (await call<{ accounts: Person[] }>('GET', `/admin/accounts?${query}`)).accounts
}

const people = new People(ask)

/** An address of a record, with the handle of its account in place of the DID if the handle is known. */
export function named(uri: string): string {
  const did = authorOf(uri)
  const handle = did && personOf(did)?.handle
  return did && handle ? uri.replace(did, handle) : uri
}

/** The account of a record's address. */
export const authorOf = (uri: string): string | undefined => /^at:\/\/(did:[^/]+)/.exec(uri)?.[1]

/** The account with a DID, if the user may see names. Used in what a component shows, it follows the answer. */
export function personOf(did: string): Person | null {
  return session.can('records:read') ? people.of(did) : null
}
