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

/** Accounts that are kept: more than a page shows. */
const MAX_KNOWN = 5_000

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
  #isAsking = false
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
    if (!entry) {
      if (this.#entries.size >= MAX_KNOWN) this.#entries.clear()
      this.#entries.set(did, (entry = { person: null, until: 0, times: 0 }))
    }
    if (entry.until <= this.now()) {
      // A failure is no reason to ask at once again.
      entry.until = this.now() + NAMELESS_TIME
      this.#want([did])
    }
    return entry.person
  }

  #want(dids: string[]) {
    for (const did of dids) this.#wanted.add(did)
    if (this.#isAsking) return
    this.#isAsking = true
    queueMicrotask(() => void this.#askAll())
  }

  /** Asks for what is wanted, also meanwhile, in one request after another: events may bring a new account each. */
  async #askAll() {
    while (this.#wanted.size > 0) {
      const batch = firstBatch(this.#wanted)
      for (const did of batch) this.#wanted.delete(did)
      this.#keep(await this.ask(batch).catch((): Person[] => []))
    }
    this.#isAsking = false
  }

  #keep(found: Person[]) {
    const nameless: string[] = []
    for (const person of found) {
      const entry = this.#entries.get(person.did)
      if (!entry) continue
      entry.person = person
      entry.times += 1
      entry.until = this.now() + (person.handle ? KNOWN_TIME : NAMELESS_TIME)
      if (!person.handle && entry.times === 1) nameless.push(person.did)
    }
    this.#answers += 1
    if (nameless.length > 0) setTimeout(() => this.#want(nameless), AGAIN_AFTER)
  }
}

/** As many DIDs as one request may have. */
function firstBatch(dids: Iterable<string>): string[] {
  const batch: string[] = []
  let room = MAX_CHARACTERS
  for (const did of dids) {
    room -= did.length
    if (batch.length > 0 && (room < 0 || batch.length === MAX_DIDS)) break
    batch.push(did)
  }
  return batch
}
