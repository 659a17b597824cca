// The real network of tests/network/up.mjs, in a process of its own.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const UP = fileURLToPath(new URL('../../network/up.mjs', import.meta.url))

export class Network {
  #process

  /** Starts it. It ends with this process, because its standard input is closed then. */
  static async start() {
    const network = new Network()
    network.#process = spawn(process.execPath, [UP, '--accounts', '', '--stdin'], { stdio: ['pipe', 'pipe', 'ignore'] })
    const [line] = await once(createInterface({ input: network.#process.stdout }), 'line')
    return Object.assign(network, JSON.parse(line))
  }

  /** Sends a request to the control interface. */
  async tell(path, body = {}) {
    const answer = await fetch(`${this.control}${path}`, { method: 'POST', body: JSON.stringify(body) })
    const json = await answer.json()
    if (!answer.ok) throw new Error(`${path}: ${json.error}`)
    return json
  }

  /** Creates an account on the PDS. */
  async account(name) {
    const account = await this.tell('/account', { name })
    return Object.assign(new Account(this), account)
  }

  async stop() {
    this.#process.stdin.end()
    await once(this.#process, 'exit')
  }
}

/** An account of the PDS, as its owner's client uses it. */
class Account {
  #network

  constructor(network) {
    this.#network = network
  }

  async #call(method, body) {
    const answer = await fetch(`${this.#network.pds}/xrpc/com.atproto.repo.${method}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${this.accessJwt}` },
      body: JSON.stringify({ repo: this.did, ...body }),
    })
    if (!answer.ok) throw new Error(`${method}: ${answer.status} ${await answer.text()}`)
    return answer.json()
  }

  /** Signs in and agrees at the PDS, as an app's user. Returns where the browser would be sent. */
  async consent(url) {
    return (await this.#network.tell('/consent', { url, username: this.handle, password: this.password })).url
  }

  uri(collection, rkey) {
    return `at://${this.did}/${collection}/${rkey}`
  }

  /** Writes a record. */
  async put(collection, rkey, record) {
    await this.#call('putRecord', { collection, rkey, record: { $type: collection, ...record }, validate: false })
    return this.uri(collection, rkey)
  }

  /** Uploads a blob, for a record to refer to. */
  async blob(bytes, type) {
    const answer = await fetch(`${this.#network.pds}/xrpc/com.atproto.repo.uploadBlob`, {
      method: 'POST',
      headers: { 'content-type': type, authorization: `Bearer ${this.accessJwt}` },
      body: bytes,
    })
    if (!answer.ok) throw new Error(`uploadBlob: ${answer.status} ${await answer.text()}`)
    return (await answer.json()).blob
  }

  async delete(collection, rkey) {
    await this.#call('deleteRecord', { collection, rkey })
  }
}
