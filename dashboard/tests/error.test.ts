import { afterAll, expect, test, vi } from 'vitest'
import { ApiError, errorOf } from '../src/api/error'

vi.stubGlobal('addEventListener', () => undefined)
vi.stubGlobal('document', { baseURI: 'https://view.example/dashboard/', querySelector: () => ({}) })
vi.stubGlobal('fetch', () => Promise.resolve(new Response('{}')))
const { message, sentence, withTimes } = await import('../src/lib/message')
const { network } = await import('../src/lib/network.svelte')
const { session } = await import('../src/lib/session.svelte')
afterAll(() => vi.unstubAllGlobals())

const json = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(body), { status, headers })

test('errors of the server become sentences', async () => {
  expect(message(await errorOf(json(400, { error: 'nsid is not an NSID' })))).toBe('Nsid is not an NSID.')
  expect(message(await errorOf(json(404, { error: 'NotFound', message: 'record not found' })))).toBe(
    'Record not found.',
  )
  expect(message(await errorOf(json(500, { error: 'internal server error', correlationId: 'c1' })))).toContain('c1')
})

test('a 401 about another account says what the server says', async () => {
  const error = await errorOf(json(401, { error: 'log in as did:plc:b first' }))
  expect(message(error)).toBe('Log in as did:plc:b first.')
  const me = { did: 'did:plc:a', is_admin: true, is_super: true, permissions: [], handle: null, user_id: 'u' }
  session.begin(null, me)
  error.endsSession = true
  session.ended()
  expect(message(error)).toBe('Your session has ended. Log in again.')
  session.begin(null, me)
  expect(message(error)).toContain('You are logged in again')
})

test('a missing permission is named', async () => {
  const error = await errorOf(json(403, { error: 'insufficient permissions', message: 'this needs lexicons:read' }))
  expect(error.permission).toBe('lexicons:read')
  expect(message(error)).toContain('lexicons:read')
  expect((await errorOf(json(403, { error: 'insufficient permissions' }))).permission).toBeNull()
})

test('a limit says when to try again, and a proxy is not the server', async () => {
  const limited = await errorOf(json(429, { error: 'RateLimitExceeded' }, { 'retry-after': '7' }))
  expect(message(limited)).toContain('7 s')
  const proxy = await errorOf(new Response('<html>', { status: 502, statusText: 'Bad Gateway' }))
  expect([proxy.isFromServer, message(proxy).includes('502')]).toEqual([false, true])
  network.lost()
  const unreachable = new ApiError(0, { error: 'unreachable' })
  expect(message(unreachable)).toContain('does not answer')
  await vi.waitFor(() => expect(network.isLost).toBe(false), 5_000)
  expect(message(unreachable)).toContain('It is back')
})

test('times in texts are written as elsewhere', () => {
  expect(withTimes('since 2026-11-22T21:55:46.898997Z; it')).toMatch(/^since 2\d Nov 2026, \d\d:\d\d:46 .*; it$/)
  expect(withTimes('at://did:plc:a/com.example.note/1')).toBe('at://did:plc:a/com.example.note/1')
})

test('sentences keep identifiers as they are', () => {
  expect(sentence('target_collection is not an NSID')).toBe('target_collection is not an NSID.')
  expect(sentence('did:plc:a is already a user')).toBe('did:plc:a is already a user.')
  expect(sentence('the link has expired')).toBe('The link has expired.')
})
