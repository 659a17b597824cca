// An application's OAuth flow with a real PDS (metadata, PAR, PKCE, DPoP with nonces, code, token), with a headless user.
import crypto from 'node:crypto'
import { signInAndConsent } from './oauth-user.mjs'

const b64u = (x) => Buffer.from(x).toString('base64url')
const sha = (s) => crypto.createHash('sha256').update(s).digest()
export const newKey = () => crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' })
const pub = ({ kty, crv, x, y }) => ({ crv, kty, x, y })
export const thumbprint = (jwk) => b64u(sha(JSON.stringify(pub(jwk))))
export function jwt(jwk, header, payload) {
  const input = `${b64u(JSON.stringify({ alg: 'ES256', ...header }))}.${b64u(JSON.stringify(payload))}`
  return `${input}.${b64u(crypto.sign('sha256', Buffer.from(input), { key: crypto.createPrivateKey({ key: jwk, format: 'jwk' }), dsaEncoding: 'ieee-p1363' }))}`
}
export const dpop = (jwk, { htm, htu, nonce, ath }) => jwt(jwk, { typ: 'dpop+jwt', jwk: pub(jwk) }, { jti: crypto.randomUUID(), htm, htu: htu.split(/[?#]/)[0], iat: Math.floor(Date.now() / 1000), ...(nonce ? { nonce } : {}), ...(ath ? { ath } : {}) })

// fetch with DPoP, retrying once on use_dpop_nonce (auth server: 400 JSON; resource server: 401 WWW-Authenticate)
export async function dpopFetch(jwk, url, { method = 'GET', headers = {}, body, accessToken, nonces = new Map() } = {}) {
  const origin = new URL(url).origin
  for (let i = 0; ; i++) {
    const proof = dpop(jwk, { htm: method, htu: url, nonce: nonces.get(origin), ath: accessToken && b64u(sha(accessToken)) })
    const r = await fetch(url, { method, body, headers: { ...headers, dpop: proof, ...(accessToken ? { authorization: `DPoP ${accessToken}` } : {}) } })
    const n = r.headers.get('dpop-nonce'); if (n) nonces.set(origin, n)
    const text = await r.text()
    let json; try { json = JSON.parse(text) } catch { json = text }
    const want = json?.error === 'use_dpop_nonce' || /use_dpop_nonce/.test(r.headers.get('www-authenticate') ?? '')
    if (want && i === 0) continue
    return { status: r.status, headers: r.headers, body: json, nonceRetried: i }
  }
}

export async function runOAuth({ pds, handle, password, key = newKey(), scope = 'atproto transition:generic', redirectUri = 'http://127.0.0.1:8080/callback', clientId, clientKey, approve = true, trace }) {
  const rs = await (await fetch(`${pds}/.well-known/oauth-protected-resource`)).json()
  const as = await (await fetch(`${rs.authorization_servers[0]}/.well-known/oauth-authorization-server`)).json()
  clientId ??= `http://localhost?${new URLSearchParams([['redirect_uri', redirectUri], ['scope', scope]])}`
  const verifier = b64u(crypto.randomBytes(32)), state = b64u(crypto.randomBytes(16))
  const nonces = new Map()
  const auth = () => clientKey ? { client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer', client_assertion: jwt(clientKey, { kid: clientKey.kid }, { iss: clientId, sub: clientId, aud: as.issuer, jti: crypto.randomUUID(), iat: Math.floor(Date.now() / 1000), exp: Math.floor(Date.now() / 1000) + 60 }) } : {}
  const form = (url, fields) => dpopFetch(key, url, { method: 'POST', headers: { 'content-type': 'application/x-www-form-urlencoded' }, body: new URLSearchParams({ client_id: clientId, ...auth(), ...fields }).toString(), nonces })
  const par = await form(as.pushed_authorization_request_endpoint, { response_type: 'code', response_mode: 'query', redirect_uri: redirectUri, scope, state, code_challenge: b64u(sha(verifier)), code_challenge_method: 'S256', login_hint: handle })
  trace?.('PAR', par.status, JSON.stringify(par.body))
  if (par.status !== 201) throw new Error(`PAR ${par.status} ${JSON.stringify(par.body)}`)
  const authorizeUrl = `${as.authorization_endpoint}?${new URLSearchParams({ client_id: clientId, request_uri: par.body.request_uri })}`
  const back = new URL(await signInAndConsent(authorizeUrl, { username: handle, password, approve, trace }))
  const cb = Object.fromEntries(back.searchParams)
  if (cb.state !== state || cb.iss !== as.issuer) throw new Error(`bad callback ${back.href}`)
  if (cb.error) return { error: cb.error, error_description: cb.error_description, callback: back.href }
  const tok = await form(as.token_endpoint, { grant_type: 'authorization_code', code: cb.code, redirect_uri: redirectUri, code_verifier: verifier })
  trace?.('token', tok.status)
  if (tok.status !== 200) throw new Error(`token ${tok.status} ${JSON.stringify(tok.body)}`)
  const refresh = (refresh_token) => form(as.token_endpoint, { grant_type: 'refresh_token', refresh_token })
  return { issuer: as.issuer, pds, client_id: clientId, redirect_uri: redirectUri, ...tok.body, dpop_jwk: key, jkt: thumbprint(key), token_endpoint: as.token_endpoint, revocation_endpoint: as.revocation_endpoint, refresh, nonces }
}
