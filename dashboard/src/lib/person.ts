import { call } from '../api/client'
import type { Person } from '../api/models/access'
import { People } from './people.svelte'
import { session } from './session.svelte'

async function ask(dids: string[]): Promise<Person[]> {
  const query = dids.map((did) => `did=${encodeURIComponent(did)}`).join('&')
  return (await call<{ accounts: Person[] }>('GET', `/admin/accounts?${query}`)).accounts
}

const people = new People(ask)

/** The account with a DID, if the user may see names. Used in what a component shows, it follows the answer. */
export function personOf(did: string): Person | null {
  return session.can('records:read') ? people.of(did) : null
}
