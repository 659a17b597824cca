// The control interface of the tests: JSON over HTTP, with the routes of up.mjs.
import http from 'node:http'
import { HOST } from './loopback.mjs'

/** Encodes bytes, such as the signatures of labels, as base64. */
const bytesAsBase64 = (key, value) =>
  value instanceof Uint8Array || value?.type === 'Buffer' ? { $bytes: Buffer.from(value.data ?? value).toString('base64') } : value

export async function startControl({ port, routes }) {
  const server = http.createServer(async (req, res) => {
    const answer = (status, body) => res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body, bytesAsBase64))
    const route = routes[`${req.method} ${req.url}`]
    if (!route) return answer(404, { error: 'no such route' })
    try {
      let text = ''
      for await (const chunk of req) text += chunk
      answer(200, (await route(text ? JSON.parse(text) : {})) ?? {})
    } catch (error) { answer(500, { error: String(error) }) }
  })
  await new Promise((done) => server.listen(port, HOST, done))
  return { url: `http://${HOST}:${port}`, stop: () => new Promise((done) => { server.closeAllConnections(); server.close(done) }) }
}
