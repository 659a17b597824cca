// Runs the real binary, as an operator does.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { until } from './until.mjs'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const TARGET = process.env.CARGO_TARGET_DIR ?? path.join(ROOT, 'target')
const BINARY = process.env.BELVEDERE_BINARY ?? path.join(TARGET, 'debug/belvedere')

/** The maintenance database of a PostgreSQL for tests (tests/support/postgres.sh); stories run on SQLite only without it. */
export const POSTGRES = process.env.BELVEDERE_TEST_POSTGRES_URL
let databases = 0

/** A new database there, with the migrations of the test run's template if it has made one. */
function createDatabase() {
  const name = `browser_${process.pid}_${databases++}`
  const template = process.env.BELVEDERE_TEST_POSTGRES_TEMPLATE
  const command = `CREATE DATABASE ${name}${template ? ` TEMPLATE ${template}` : ''}`
  execFileSync('psql', [POSTGRES, '--quiet', '--command', command], { stdio: 'pipe' })
  return POSTGRES.replace(/[^/]*$/, name)
}

/**
 * Ports below the kernel's ephemeral ones, so that no connection takes one while its server is restarted. Each of the processes that
 * run at a time has ports of its own: the server of one could take that of another's stopped server.
 */
const PORTS = 200
const FIRST_PORT = 10_000 + (process.pid % 100) * PORTS
let tried = 0

async function freePort() {
  for (;;) {
    const port = FIRST_PORT + (tried++ % PORTS)
    const server = net.createServer()
    const isFree = await new Promise((done) => server.once('error', () => done(false)).listen(port, '127.0.0.1', () => done(true)))
    if (!isFree) continue
    server.close()
    await once(server, 'close')
    return port
  }
}

export class Server {
  #process
  #environment
  #key

  /** A new server on an empty database, `sqlite` or `postgres`. Does not start it. */
  static async create(network, { database = 'sqlite', ...more } = {}) {
    const server = new Server()
    server.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'belvedere-browser-'))
    const data = path.join(server.folder, 'data')
    // All servers share the compiled guest.
    const guest = path.join(TARGET, 'tmp/guest')
    fs.mkdirSync(guest, { recursive: true })
    fs.mkdirSync(data)
    fs.symlinkSync(guest, path.join(data, 'cache'))
    const port = await freePort()
    server.url = `http://127.0.0.1:${port}`
    server.#environment = {
      DATA_DIR: data, HOST: '127.0.0.1', PORT: String(port), PUBLIC_URL: server.url, DEFAULT_RATE_LIMIT_CAPACITY: '1000000',
      JETSTREAM_URL: network.jetstream, PLC_URL: network.plc, RELAY_URL: network.relay, DNS_SERVER: network.dns,
      RUST_LOG: 'info', ...(database === 'postgres' ? { DATABASE_URL: createDatabase() } : {}), ...more,
    }
    return server
  }

  async start() {
    const log = fs.openSync(path.join(this.folder, 'log'), 'a')
    this.#process = spawn(BINARY, ['serve'], { env: this.#environment, cwd: this.folder, stdio: ['ignore', log, log] })
    fs.closeSync(log)
    await until('the server is ready', async () => (await fetch(`${this.url}/readyz`)).ok)
    return this
  }

  /** Ends the process with a signal and waits for it. */
  async stop(signal = 'SIGTERM') {
    const ended = once(this.#process, 'exit')
    this.#process.kill(signal)
    await ended
  }

  async restart() {
    await this.stop()
    await this.start()
  }

  async remove() {
    if (this.#process?.exitCode === null) await this.stop('SIGKILL')
    fs.rmSync(this.folder, { recursive: true, force: true })
  }

  log() {
    return fs.readFileSync(path.join(this.folder, 'log'), 'utf8')
  }

  /** Runs `belvedere …` with the server's configuration, and returns its output. */
  run(...words) {
    return execFileSync(BINARY, words, { env: this.#environment, cwd: this.folder, encoding: 'utf8', stdio: 'pipe' })
  }

  /** Creates an admin API key with which `api` calls. */
  useKeyOf(did) {
    this.#key = this.run('admin', 'create-key', '--unchecked', '--did', did).match(/bva_\S+/)[0]
  }

  /** Calls the admin API, to prepare what a story is not about. */
  async api(method, route, body) {
    const answer = await fetch(`${this.url}${route}`, {
      method,
      headers: { authorization: `Bearer ${this.#key}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${route}: ${answer.status} ${text}`)
    return text ? JSON.parse(text) : null
  }

  /** Uploads a lexicon. */
  async upload(lexicon, more = {}) {
    return this.api('POST', '/admin/lexicons', { lexicon_json: lexicon, backfill: false, ...more })
  }
}
