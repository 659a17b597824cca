// A DNS server with settable TXT records, for handles (`_atproto.`) and lexicon authorities (`_lexicon.`).
import dns2 from 'dns2'
import { HOST } from './loopback.mjs'

const { Packet, createServer } = dns2

export async function startDns({ port }) {
  const txt = new Map() // lower-case name -> strings
  const server = createServer({
    udp: true,
    tcp: true,
    handle: (request, send) => {
      const response = Packet.createResponseFromRequest(request)
      const [{ name, type }] = request.questions
      const known = txt.get(name.toLowerCase())
      const answer = (type, data) => response.answers.push({ name, type, class: Packet.CLASS.IN, ttl: 1, ...data })
      if (type === Packet.TYPE.TXT && known) for (const data of known) answer(type, { data })
      else if (type === Packet.TYPE.A && /\.test$/.test(name)) answer(type, { address: HOST })
      else if (!known) response.header.rcode = 3 // no such name
      send(response)
    },
  })
  await server.listen({ udp: { port, address: HOST, type: 'udp4' }, tcp: { port, address: HOST } })
  return {
    address: `${HOST}:${port}`,
    set: (name, strings) => txt.set(name.toLowerCase(), strings),
    delete: (name) => txt.delete(name.toLowerCase()),
    stop: () => server.close(),
  }
}
