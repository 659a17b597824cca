// The network of an example: the stand-ins of tests/standins/bin/network.rs, by their commands.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createInterface } from 'node:readline'

export class Network {
  #process
  #waiting = []
  #accounts = new Map()
  // Later than everything in the index, and each event later than the one before.
  #time = Date.now() * 1000

  // Starts the stand-ins.
  static async start(binary) {
    const network = new Network()
    network.#process = spawn(binary, [], { stdio: ['pipe', 'pipe', 'inherit'] })
    const ended = new Promise((_, reject) => network.#process.once('error', reject).once('exit', (code) => reject(new Error(`${binary} ended with ${code}`))))
    ended.catch(() => {})
    createInterface({ input: network.#process.stdout }).on('line', (line) => network.#waiting.shift()?.(JSON.parse(line)))
    network.addresses = await Promise.race([network.#answer(), ended])
    return network
  }

  #answer() {
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  async #command(name, values) {
    const answer = this.#answer()
    this.#process.stdin.write(`${JSON.stringify({ [name]: values })}\n`)
    const { error, ...rest } = await answer
    if (error) throw new Error(error)
    return rest
  }

  // Creates an account. Its DID is made of its name, so that it is the same in each run.
  async account(name) {
    const account = { did: did(name), handle: `${name}.example.com` }
    this.#accounts.set(name, account)
    await this.#command('account', account)
  }

  // { name: { did, handle } }
  get accounts() {
    return Object.fromEntries(this.#accounts)
  }

  // Writes a record as its author's PDS does: the index has it a moment later. Its key is made of the label.
  async put(name, collection, label, record) {
    const { did } = this.#accounts.get(name)
    await this.#command('put', { did, collection, rkey: rkey(label), record: { $type: collection, ...record }, time_us: ++this.#time })
  }

  async delete(name, collection, label) {
    const { did } = this.#accounts.get(name)
    await this.#command('delete', { did, collection, rkey: rkey(label), time_us: ++this.#time })
  }

  // A service token, by which an account calls the server with this DID (docs/authentication.md).
  async token(name, audience) {
    const { did } = this.#accounts.get(name)
    const now = Math.floor(Date.now() / 1000)
    const claims = { iss: did, aud: audience, iat: now, exp: now + 60, jti: crypto.randomUUID() }
    return (await this.#command('sign', { did, claims })).token
  }

  stop() {
    this.#process.stdin.end()
  }
}

// The DID of an account by its name, in the alphabet of did:plc.
export const did = (name) => `did:plc:${name.replace(/[^a-z2-7]/g, '').padEnd(24, 'a').slice(0, 24)}`

// The record key of a label: the key of a singleton, or a TID that is the same in each run.
function rkey(label) {
  if (label === 'self') return label
  const alphabet = '234567abcdefghijklmnopqrstuvwxyz'
  const characters = [...createHash('sha256').update(label).digest().subarray(0, 13)].map((byte) => alphabet[byte % 32])
  // The highest bit of a TID is zero.
  return ['3', ...characters.slice(1)].join('')
}

export const uri = (name, collection, label) => `at://${did(name)}/${collection}/${rkey(label)}`

// Links name records by URI; the CID in them is not compared.
const ANY_CID = 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a'

// A strong reference to a record.
export const ref = (name, collection, label) => ({ uri: uri(name, collection, label), cid: ANY_CID })
