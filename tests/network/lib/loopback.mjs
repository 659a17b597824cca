// Confines the network to this machine. Import it before any module that listens or resolves names.
import dgram from 'node:dgram'
import dns from 'node:dns'
import module from 'node:module'
import net from 'node:net'

export const HOST = '127.0.0.1'
/** The zones of the test network's names, such as the handles of the test accounts. */
const OURS = /(^|\.)test$/

/** Makes every server listen on loopback, even without a host argument. */
export function confine() {
  const listen = net.Server.prototype.listen
  net.Server.prototype.listen = function (...args) {
    if (typeof args[0] === 'number' && typeof args[1] !== 'string') args.splice(1, 0, HOST)
    else if (args[0] && typeof args[0] === 'object' && 'port' in args[0] && !args[0].host) args[0] = { ...args[0], host: HOST }
    return listen.apply(this, args)
  }
}

/** Sends this process's DNS queries to our own server. The PDS binds `resolveTxt` when it is imported: call this before. */
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

/** A port that is free for TCP and UDP. Another process could take it before its use, but none here uses fixed ports. */
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
