// A relay in front of one PDS: implements listReposByCollection itself and forwards all other requests.
import http from 'node:http'
import net from 'node:net'
import { HOST } from './loopback.mjs'

/** The default and maximal page size, the same as of production relays. */
const PAGE = 500
const MAX_PAGE = 2000

async function reposByCollection(pdsUrl, collection) {
  const dids = []
  let cursor
  do {
    const page = await (await fetch(`${pdsUrl}/xrpc/com.atproto.sync.listRepos?limit=1000${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''}`)).json()
    for (const repo of page.repos.filter((repo) => repo.active !== false)) {
      const described = await fetch(`${pdsUrl}/xrpc/com.atproto.repo.describeRepo?repo=${repo.did}`)
      if (described.ok && (await described.json()).collections.includes(collection)) dids.push(repo.did)
    }
    cursor = page.cursor
  } while (cursor)
  return dids.sort()
}

export async function startRelay({ pdsUrl, port }) {
  const pds = new URL(pdsUrl)
  const server = http.createServer(async (req, res) => {
    const json = (status, body) => res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    try {
      const url = new URL(req.url, 'http://relay')
      if (url.pathname === '/xrpc/com.atproto.sync.requestCrawl') return json(200, {})
      if (url.pathname === '/xrpc/com.atproto.sync.listReposByCollection') {
        const collection = url.searchParams.get('collection')
        if (!collection) return json(400, { error: 'InvalidRequest', message: 'Error: Params must have the property "collection"' })
        const limit = Math.min(Number(url.searchParams.get('limit') || PAGE), MAX_PAGE)
        const after = url.searchParams.get('cursor') ?? ''
        const rest = (await reposByCollection(pdsUrl, collection)).filter((did) => did > after)
        const page = rest.slice(0, limit)
        return json(200, { ...(rest.length > limit ? { cursor: page.at(-1) } : {}), repos: page.map((did) => ({ did })) })
      }
      const upstream = http.request(
        { host: pds.hostname, port: pds.port, path: req.url, method: req.method, headers: { ...req.headers, host: pds.host } },
        (answer) => { res.writeHead(answer.statusCode, answer.headers); answer.pipe(res) },
      )
      upstream.on('error', (error) => json(502, { error: 'UpstreamFailure', message: error.message }))
      req.pipe(upstream)
    } catch (error) { json(500, { error: 'InternalServerError', message: String(error) }) }
  })
  server.on('upgrade', (req, socket, head) => {
    const upstream = net.connect(Number(pds.port), pds.hostname, () => {
      const headers = []
      for (let i = 0; i < req.rawHeaders.length; i += 2) headers.push(`${req.rawHeaders[i]}: ${req.rawHeaders[i + 1]}\r\n`)
      upstream.write(`${req.method} ${req.url} HTTP/1.1\r\n${headers.join('')}\r\n`)
      upstream.write(head)
      upstream.pipe(socket).pipe(upstream)
    })
    upstream.on('error', () => socket.destroy())
    socket.on('error', () => upstream.destroy())
  })
  await new Promise((done) => server.listen(port, HOST, done))
  return { url: `http://${HOST}:${port}`, stop: () => new Promise((done) => { server.closeAllConnections(); server.close(done) }) }
}
