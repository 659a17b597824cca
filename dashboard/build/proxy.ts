import type { ProxyOptions, ServerOptions } from 'vite'

/** The paths of the server that pages use. */
const PATHS = [
  '/admin',
  '/auth',
  '/api',
  '/config',
  '/external-auth',
  '/oauth',
  '/settings',
  '/xrpc',
  '/health',
  '/livez',
  '/readyz',
]

/**
 * The development server: pages come from Vite, everything else from the server at `BELVEDERE_URL`.
 *
 * With `BELVEDERE_API_KEY` calls are made with that admin key, so that no login is needed.
 */
export function server(env: Record<string, string>): ServerOptions {
  const target = env.BELVEDERE_URL ?? 'http://127.0.0.1:3000'
  const key = env.BELVEDERE_API_KEY
  const options: ProxyOptions = {
    target,
    changeOrigin: true,
    configure(proxy) {
      proxy.on('proxyReq', (request) => {
        // The server accepts writes with a session from its own pages only.
        if (request.getHeader('origin')) request.setHeader('origin', new URL(target).origin)
        if (key) request.setHeader('authorization', `Bearer ${key}`)
      })
    },
    bypass(request, response) {
      if (!key || !response || request.url?.split('?')[0] !== '/auth/me') return undefined
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ did: 'did:plc:development', is_admin: true, is_super: true }))
      return false
    },
  }
  return { host: '127.0.0.1', proxy: Object.fromEntries(PATHS.map((path) => [path, options])) }
}
