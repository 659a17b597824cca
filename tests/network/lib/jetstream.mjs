// A Jetstream server (`/subscribe`, and `subscribeEvents` of the second protocol) in front of a PDS's firehose. Every event since the start stays in memory
// and can be replayed by cursor, so a consumer that reconnects loses nothing.
import http from 'node:http'
import { WebSocket, WebSocketServer } from 'ws'
import { decodeFrame } from './jetstream-frame.mjs'
import { BadOptions, parseFilter, wants } from './jetstream-filter.mjs'
import { HOST } from './loopback.mjs'

const SECOND = 'network.bsky.jetstream.subscribeEvents'
const MAX_MESSAGE = 10_000_000
const RECONNECT_MS = 250
const PING_MS = 30_000

/** An event as a message of the second protocol. */
function secondText({ kind, did, micros, body }, seq) {
  const time = `${new Date(Math.floor(micros / 1000)).toISOString().slice(0, -1)}${String(micros % 1000).padStart(3, '0')}Z`
  const base = { $type: `${SECOND}#${kind}`, seq, did, time }
  return JSON.stringify({ $type: 'message', payload: kind === 'commit' ? { ...base, ...body } : { ...base, [kind]: body } })
}

export class Jetstream {
  constructor({ upstream, port, log }) {
    Object.assign(this, { upstream, port, log, events: [], clients: new Set(), upstreamCursor: 0, lastMicros: 0, floor: 0, paused: false })
  }

  async start() {
    this.server = http.createServer((req, res) => res.writeHead(404).end('not found\n'))
    this.sockets = new WebSocketServer({ noServer: true, maxPayload: MAX_MESSAGE })
    this.server.on('upgrade', (req, socket, head) => this.#upgrade(req, socket, head))
    await new Promise((done) => this.server.listen(this.port, HOST, done))
    this.ping = setInterval(() => { for (const client of this.clients) client.ws.ping() }, PING_MS)
    this.#connectUpstream()
    return `ws://${HOST}:${this.port}`
  }

  /** Drops every client's connection, like a server that restarts. */
  drop() { for (const client of this.clients) client.ws.terminate() }

  /** While on, sends no events; the connections stay open. */
  pause(on) {
    this.paused = on
    this.#pump()
  }

  /** Forgets the events so far, like a server whose history was lost. */
  forget() { this.floor = this.lastMicros + 1 }

  stats() { return { events: this.events.length, clients: this.clients.size, upstreamCursor: this.upstreamCursor } }

  async stop() {
    this.closed = true
    clearInterval(this.ping)
    this.upstreamSocket?.terminate()
    this.drop()
    await new Promise((done) => this.server.close(done))
  }

  #connectUpstream() {
    if (this.closed) return
    const ws = (this.upstreamSocket = new WebSocket(`${this.upstream}/xrpc/com.atproto.sync.subscribeRepos?cursor=${this.upstreamCursor}`))
    let chain = Promise.resolve() // frames are decoded one after the other, to preserve their order
    ws.on('message', (data) => {
      chain = chain.then(async () => {
        for (const event of await decodeFrame(data)) this.#push(event)
      }).catch((error) => this.log('jetstream: frame from the PDS', error))
    })
    ws.on('error', (error) => this.log('jetstream: connection to the PDS', error.message))
    ws.on('close', () => { if (!this.closed) setTimeout(() => this.#connectUpstream(), RECONNECT_MS) })
  }

  #push(event) {
    this.upstreamCursor = event.upstreamSeq ?? this.upstreamCursor
    // Cursors are unix microseconds and must be strictly ascending.
    this.lastMicros = Math.max(this.lastMicros + 1, Math.floor((performance.timeOrigin + performance.now()) * 1000))
    event.micros = this.lastMicros
    // The first protocol has no sync events.
    if (event.kind !== 'sync') event.text = JSON.stringify({ did: event.did, time_us: event.micros, kind: event.kind, [event.kind]: event.body })
    event.secondText = secondText(event, this.events.length)
    this.events.push(event)
    this.#pump()
  }

  #pump() { for (const client of this.clients) client.pump() }

  #upgrade(req, socket, head) {
    const refuse = (status, message) => {
      const body = `${message}\n`
      socket.end(`HTTP/1.1 ${status} ${http.STATUS_CODES[status]}\r\ncontent-type: text/plain\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`)
    }
    const { pathname, searchParams: query } = new URL(req.url, 'http://jetstream')
    const isSecond = pathname === `/xrpc/${SECOND}`
    if (!isSecond && pathname !== '/subscribe') return refuse(404, 'not found')
    // Compression is not supported, since there is no dictionary. The refusal is the same as production's, and clients must
    // handle it.
    if (query.get('compress') === 'true' || /zstd/.test(req.headers['socket-encoding'] ?? '')) return refuse(400, 'zstd is not offered')
    let filter
    try {
      filter = parseFilter({ collections: query.getAll(isSecond ? 'collections' : 'wantedCollections'), dids: query.getAll(isSecond ? 'dids' : 'wantedDids'), max: query.get('maxMessageSizeBytes') })
    } catch (error) {
      return refuse(400, error.message)
    }
    const cursor = query.get('cursor')
    if (cursor && !/^\d+$/.test(cursor)) return refuse(400, `invalid cursor: ${cursor}`)
    let next = this.events.length
    if (cursor && Number(cursor) <= Date.now() * 1000) {
      const first = this.events.findIndex((event) => event.micros >= Math.max(Number(cursor), this.floor))
      if (first >= 0) next = first
    }
    this.sockets.handleUpgrade(req, socket, head, (ws) => this.#serve(ws, filter, next, isSecond, query.get('requireHello') !== 'true'))
  }

  #serve(ws, filter, next, isSecond, started) {
    const client = {
      ws,
      pump: () => {
        if (!started || this.paused || ws.readyState !== WebSocket.OPEN) return
        while (next < this.events.length) {
          const event = this.events[next++]
          const text = isSecond ? event.secondText : event.text
          if (text && wants(filter, event) && Buffer.byteLength(text) <= filter.maxBytes) ws.send(text)
        }
      },
    }
    this.clients.add(client)
    ws.on('close', () => this.clients.delete(client))
    ws.on('error', () => {}) // a close follows
    ws.on('message', (data) => {
      try {
        const message = JSON.parse(data.toString())
        if (message.type !== 'options_update') return
        const { wantedCollections, wantedDids, maxMessageSizeBytes } = message.payload ?? {}
        filter = parseFilter({ collections: wantedCollections, dids: wantedDids, max: maxMessageSizeBytes })
      } catch (error) {
        ws.close(1008, error instanceof BadOptions ? error.message : 'invalid json')
        return
      }
      started = true
      client.pump()
    })
    client.pump()
  }
}
