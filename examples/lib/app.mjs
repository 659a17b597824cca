// Runs an example: a network of stand-ins with the example's records, a server with its lexicons, views and scripts, and its page.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { createServer as createSocket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { Network } from './network.mjs'

const EXAMPLES = fileURLToPath(new URL('..', import.meta.url))
const OPERATOR = 'operator'
// Time to start, and for a change to be in the index.
const TIMEOUT_MS = 60_000
const POLL_MS = 50

// The folder of the binaries of this repository: BELVEDERE_BIN, or that of the shared target directory.
const binaries = process.env.BELVEDERE_BIN
  ?? join(process.env.CARGO_TARGET_DIR ?? join(process.env.BELVEDERE_CACHE ?? join(process.env.HOME, '.cache/belvedere'), 'target'), 'debug')

export class App {
  #server
  #page
  #folder
  #environment

  // Starts an example by the name of its folder. `page`: the port of its page; none is served without one.
  static async start(name, { page } = {}) {
    const app = new App()
    try {
      await app.#start(name, page)
    } catch (error) {
      await app.stop()
      throw error
    }
    return app
  }

  async #start(name, page) {
    const { seed } = await import(`../${name}/seed.mjs`)
    this.#folder = await mkdtemp(join(tmpdir(), 'belvedere-example-'))
    this.network = await Network.start(join(binaries, 'belvedere-network'))
    await this.network.account(OPERATOR)
    await seed(this.network)
    await this.#startServer()
    // First the page: the server has to know its origin.
    if (page !== undefined) await this.#servePage(name, page)
    await this.#setUp(name)
  }

  async #startServer() {
    const port = await freePort()
    const { plc, relay, jetstream, dns } = this.network.addresses
    this.url = `http://127.0.0.1:${port}`
    this.#environment = {
      PATH: process.env.PATH, HOME: process.env.HOME, HOST: '127.0.0.1', PORT: String(port), PUBLIC_URL: this.url,
      DATA_DIR: this.#folder, DATABASE_URL: `sqlite:${join(this.#folder, 'app.db')}`,
      PLC_URL: plc, RELAY_URL: relay, JETSTREAM_URL: jetstream, DNS_SERVER: dns, RUST_LOG: 'warn',
      // Tests call often.
      DEFAULT_RATE_LIMIT_CAPACITY: '100000',
    }
    this.#server = spawn(join(binaries, 'belvedere'), ['serve'], { cwd: this.#folder, env: this.#environment, stdio: ['ignore', 'ignore', 'inherit'] })
    await eventually('the server is ready', async () => {
      if (this.#server.exitCode !== null) throw new Error(`the server ended with ${this.#server.exitCode}`)
      const answer = await fetch(`${this.url}/health`).catch(() => null)
      return answer?.ok
    })
  }

  async #setUp(name) {
    const operator = this.network.accounts[OPERATOR].did
    const key = (await this.#cli('admin', 'create-key', '--did', operator)).match(/bva_\S+/)[0]
    Object.assign(this.#environment, { BELVEDERE_URL: this.url, BELVEDERE_ADMIN_KEY: key })
    await this.#cli('push', join(EXAMPLES, name))
    await eventually('the records of before are in the index', async () => {
      const jobs = await this.admin('GET', '/admin/backfill/status')
      return jobs.every((job) => job.status === 'completed')
    })
    const client = await this.admin('POST', '/admin/api-clients', {
      name, client_id_url: 'https://app.example.com/client.json', client_uri: 'https://app.example.com',
      redirect_uris: ['https://app.example.com/callback'], allowed_origins: this.pageUrl ? [new URL(this.pageUrl).origin] : [],
    })
    this.clientKey = client.client_key
    this.did = (await this.call('com.atproto.server.describeServer', {})).did
  }

  async #cli(...args) {
    const { stdout } = await promisify(execFile)(join(binaries, 'belvedere'), args, { cwd: this.#folder, env: this.#environment })
    return stdout
  }

  async admin(method, path, body) {
    const headers = { authorization: `Bearer ${this.#environment.BELVEDERE_ADMIN_KEY}`, 'content-type': 'application/json' }
    const answer = await fetch(this.url + path, { method, headers, body: body && JSON.stringify(body) })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
    return text && JSON.parse(text)
  }

  // Calls a query method, as an account or as nobody. Throws an Error with `status` and `body` if the answer is not 200.
  async call(method, params, as) {
    const query = new URLSearchParams(Object.entries(params).flatMap(([name, value]) => [value].flat().map((each) => [name, each])))
    const headers = { 'x-client-key': this.clientKey ?? '' }
    if (as) headers.authorization = `Bearer ${await this.network.token(as, this.did)}`
    const answer = await fetch(`${this.url}/xrpc/${method}?${query}`, { headers })
    const body = await answer.json()
    if (!answer.ok) throw Object.assign(new Error(`${method}: ${answer.status} ${JSON.stringify(body)}`), { status: answer.status, body })
    return body
  }

  // Serves the page. It gets tokens from here, where a real app has a session of its user (docs/authentication.md).
  async #servePage(name, port) {
    const files = {
      '/': [`${name}/page/index.html`, 'text/html'], '/app.js': [`${name}/page/app.js`, 'text/javascript'],
      '/lib.js': ['lib/page.js', 'text/javascript'], '/page.css': ['lib/page.css', 'text/css'],
    }
    this.#page = createServer(async (request, response) => {
      const { pathname, searchParams } = new URL(request.url, 'http://page')
      const send = (type, body) => response.writeHead(200, { 'content-type': `${type}; charset=utf-8` }).end(body)
      const accounts = this.network.accounts
      if (pathname === '/config.json') {
        const names = Object.keys(accounts).filter((account) => account !== OPERATOR)
        return send('application/json', JSON.stringify({ server: this.url, clientKey: this.clientKey, accounts: names }))
      }
      if (pathname === '/token' && accounts[searchParams.get('as')]) return send('text/plain', await this.network.token(searchParams.get('as'), this.did))
      if (!files[pathname]) return response.writeHead(404).end()
      const [file, type] = files[pathname]
      send(type, await readFile(join(EXAMPLES, file)))
    })
    this.#page.listen(port, '127.0.0.1')
    await once(this.#page, 'listening')
    this.pageUrl = `http://127.0.0.1:${this.#page.address().port}/`
  }

  async stop() {
    this.#page?.close()
    this.#page?.closeAllConnections()
    if (this.#server && this.#server.exitCode === null) {
      this.#server.kill('SIGTERM')
      await once(this.#server, 'exit')
    }
    this.network?.stop()
    if (this.#folder) await rm(this.#folder, { recursive: true, force: true })
  }
}

// Waits until a condition is true.
export async function eventually(name, condition) {
  for (const end = Date.now() + TIMEOUT_MS; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, POLL_MS))) {
    if (await condition()) return
  }
  throw new Error(`not within ${TIMEOUT_MS / 1000} s: ${name}`)
}

async function freePort() {
  const socket = createSocket().listen(0, '127.0.0.1')
  await once(socket, 'listening')
  const { port } = socket.address()
  socket.close()
  await once(socket, 'close')
  return port
}
