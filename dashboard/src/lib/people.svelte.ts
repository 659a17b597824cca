import type { Person } from '../api/models/access'

/** Accounts of one request. */
const MAX_DIDS = 100

/** Characters of the DIDs of one request: proxies refuse longer addresses. */
const MAX_CHARACTERS = 4_000

/** Milliseconds for which an answer counts. */
const KNOWN_TIME = 10 * 60_000

/** The same for an account without a handle: the server looks up those that a page has shown. */
const NAMELESS_TIME = 30_000

/** Milliseconds after which a handle that was not known is asked for again, while the page shows its account. */
const AGAIN_AFTER = 4_000

type Ask = (dids: string[]) => Promise<Person[]>

interface Entry {
  person: Person | null
  until: number
  /** How often it was asked for. */
  times: number
}

/** Names of accounts. The DIDs of a page are asked for together. */
export class People {
  #entries = new Map<string, Entry>()
  #wanted = new Set<string>()
  /** The answers so far. What shows an account follows them: it does not follow a state that it has made itself. */
  #answers = $state(0)

  constructor(
    private readonly ask: Ask,
    private readonly now: () => number = Date.now,
  ) {}

  /** The account with a DID as it is known now; null until the server has answered. */
  of(did: string): Person | null {
    void this.#answers
    let entry = this.#entries.get(did)
    if (!entry) this.#entries.set(did, (entry = { person: null, until: 0, times: 0 }))
    if (entry.until <= this.now()) this.#want(did, entry)
    return entry.person
  }

  #want(did: string, entry: Entry) {
    // A failure is no reason to ask at once again.
    entry.until = this.now() + NAMELESS_TIME
    if (this.#wanted.size === 0) queueMicrotask(() => this.#send())
    this.#wanted.add(did)
  }

  #send() {
    const dids = [...this.#wanted]
    this.#wanted.clear()
    for (const batch of batches(dids)) void this.#read(batch)
  }

  async #read(dids: string[]) {
    const found = await this.ask(dids).catch((): Person[] => [])
    const nameless: string[] = []
    this.#answers += 1
    for (const person of found) {
      const entry = this.#entries.get(person.did)
      if (!entry) continue
      entry.person = person
      entry.times += 1
      entry.until = this.now() + (person.handle ? KNOWN_TIME : NAMELESS_TIME)
      if (!person.handle && entry.times === 1) nameless.push(person.did)
    }
    if (nameless.length > 0) setTimeout(() => batches(nameless).forEach((batch) => void this.#read(batch)), AGAIN_AFTER)
  }
}

function batches(dids: string[]): string[][] {
  const all: string[][] = []
  let room = 0
  for (const did of dids) {
    const last = all.at(-1)
    if (!last || last.length === MAX_DIDS || did.length > room) {
      all.push([did])
      room = MAX_CHARACTERS - did.length
    } else {
      last.push(did)
      room -= did.length
    }
  }
  return all
}
