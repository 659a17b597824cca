// Keeps everything of the network on this machine. Import it before anything that listens or looks names up.
import dgram from 'node:dgram'
import dns from 'node:dns'
import module from 'node:module'
import net from 'node:net'

export const HOST = '127.0.0.1'
/** Names of these zones are ours: handles of the test accounts live under them. */
const OURS = /(^|\.)test$/

/** Every server listens on loopback, also those that name no host. */
export function confine() {
  const listen = net.Server.prototype.listen
  net.Server.prototype.listen = function (...args) {
    if (typeof args[0] === 'number' && typeof args[1] !== 'string') args.splice(1, 0, HOST)
    else if (args[0] && typeof args[0] === 'object' && 'port' in args[0] && !args[0].host) args[0] = { ...args[0], host: HOST }
    return listen.apply(this, args)
  }
}

/** Sends this process's look-ups to our own DNS server. The PDS binds `resolveTxt` when it is imported: call it before. */
export function useDns(port) {
  const lookup = dns.lookup
  dns.lookup = (name, options, callback) => {
    if (typeof options === 'function') { callback = options; options = {} }
    if (!OURS.test(name)) return lookup(name, options, callback)
    return options.all ? callback(null, [{ address: HOST, family: 4 }]) : callback(null, HOST, 4)
  }
  dns.setServers([`${HOST}:${port}`])
  module.syncBuiltinESMExports()
}

/** A port that is free for TCP and UDP. It could be taken before its use; nothing else here takes fixed ports. */
export async function freePort() {
  for (;;) {
    const tcp = net.createServer()
    await new Promise((done, fail) => tcp.once('error', fail).listen(0, HOST, done))
    const { port } = tcp.address()
    const udp = dgram.createSocket('udp4')
    const free = await new Promise((done) => udp.once('error', () => done(false)).bind(port, HOST, () => done(true)))
    await new Promise((done) => tcp.close(done))
    if (free) await new Promise((done) => udp.close(done))
    if (free) return port
  }
}
