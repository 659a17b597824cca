import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { ApiError } from '../src/api/error'
import type { Config } from '../src/api/models'

const json = (status: number, body: unknown) => new Response(JSON.stringify(body), { status })
const answers = vi.fn<typeof fetch>()
/** A form of the page, if it has one. */
let form: object | null = null

beforeEach(() => {
  form = null
  vi.resetModules()
  vi.useFakeTimers()
  answers.mockReset()
  vi.stubGlobal('document', { baseURI: 'https://view.example/base/dashboard/#/records?x=1', querySelector: () => form })
  vi.stubGlobal('addEventListener', () => undefined)
  vi.stubGlobal('fetch', answers)
})
afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

async function modules() {
  const [{ api }, { network }, { session }] = await Promise.all([
    import('../src/api/client'),
    import('../src/lib/network.svelte'),
    import('../src/lib/session.svelte'),
  ])
  return { api, network, session }
}
const me = {
  did: 'did:plc:a',
  is_admin: true,
  is_super: false,
  permissions: ['stats:read'],
  handle: null,
  user_id: 'u',
}

test('paths are below the server, wherever it is, and empty parameters are left out', async () => {
  const { api } = await modules()
  answers.mockResolvedValue(json(200, { a: 1 }))
  expect(await api.get('/admin/jobs', { status: 'b c', limit: null, cursor: '' })).toEqual({ a: 1 })
  expect(answers.mock.calls[0]?.[0]).toBe('https://view.example/base/admin/jobs?status=b+c')
})

test('bodies are JSON, and files are sent as they are', async () => {
  const { api } = await modules()
  answers.mockImplementation(async () => new Response(null, { status: 204 }))
  expect(await api.post('/admin/labelers', { did: 'did:plc:a' })).toBeUndefined()
  const file = new Blob(['png'])
  await api.put('/admin/settings/logo', file)
  const [first, second] = answers.mock.calls.map(([, init]) => init)
  expect([first?.body, (first?.headers as Record<string, string>)['content-type']]).toEqual([
    '{"did":"did:plc:a"}',
    'application/json',
  ])
  expect([second?.body, (second?.headers as Record<string, string>)['content-type']]).toEqual([file, undefined])
})

test('a 401 ends the session of the page, and a 403 does not', async () => {
  const { api, session } = await modules()
  session.begin(null, me)
  answers.mockResolvedValueOnce(json(403, { error: 'insufficient permissions', message: 'this needs users:read' }))
  await expect(api.get('/admin/users')).rejects.toMatchObject({ status: 403, permission: 'users:read' })
  expect([session.state, session.can('stats:read'), session.can('users:read')]).toEqual(['in', true, false])
  // The session of another account, of which the server speaks, may have ended while that of the user has not.
  answers.mockResolvedValueOnce(json(401, { error: 'log in as did:plc:b first' })).mockResolvedValueOnce(json(200, me))
  await expect(api.post('/api/setup/plc/request')).rejects.toMatchObject({ status: 401, endsSession: false })
  expect(session.state).toBe('in')
  answers.mockImplementation(async () => json(401, { error: 'not authenticated' }))
  await expect(api.get('/admin/users')).rejects.toMatchObject({ status: 401, endsSession: true })
  expect([session.state, session.isEnded, session.can('stats:read')]).toEqual(['out', true, false])
})

test('a page with a form stays when the session ends, until the user leaves it or is back', async () => {
  const { api, session } = await modules()
  session.begin(null, me)
  form = {}
  answers.mockImplementation(async () => json(401, { error: 'not authenticated' }))
  await expect(api.get('/admin/users')).rejects.toMatchObject({ endsSession: true })
  expect([session.state, session.isEnded, session.can('stats:read')]).toEqual(['in', true, true])
  session.begin(null, me)
  expect([session.state, session.isEnded]).toEqual(['in', false])
  session.ended()
  session.leave()
  expect([session.state, session.isEnded, session.can('stats:read')]).toEqual(['out', true, false])
})

test('the super user may do everything', async () => {
  const { session } = await modules()
  expect(session.can('stats:read')).toBe(false)
  session.begin(null, { ...me, is_super: true, permissions: [] })
  expect(session.can('users:read', 'stats:read')).toBe(true)
})

test('only a logo of this origin is shown', async () => {
  const { session } = await modules()
  vi.stubGlobal('location', { origin: 'https://view.example' })
  const logoAt = (logo_url: string | null) => {
    session.begin({ logo_url } as Config, null)
    return session.logo
  }
  expect(logoAt('https://view.example/settings/logo?v=1')).toBe('https://view.example/settings/logo?v=1')
  const others = [null, 'https://images.example/logo.png', 'https://view.example.org/a.png']
  expect(others.map(logoAt)).toEqual([null, null, null])
})

test('a server that does not answer is asked until it does', async () => {
  const { api, network } = await modules()
  answers.mockRejectedValue(new TypeError('failed to fetch'))
  const error = (await api.get('/admin/stats').catch((failure: unknown) => failure)) as ApiError
  expect([error.status, network.isLost]).toEqual([0, true])
  await vi.advanceTimersByTimeAsync(2_000)
  expect([network.isLost, network.returns]).toEqual([true, 0])
  answers.mockResolvedValue(new Response('ok'))
  await vi.advanceTimersByTimeAsync(5_000)
  expect([network.isLost, network.returns]).toEqual([false, 1])
  expect(answers.mock.lastCall?.[0].toString()).toBe('https://view.example/base/livez')
})

test('a proxy without its server counts as no answer', async () => {
  const { api, network } = await modules()
  answers.mockResolvedValueOnce(new Response('<html>', { status: 502 }))
  await expect(api.get('/admin/stats')).rejects.toMatchObject({ status: 502, isFromServer: false })
  expect(network.isLost).toBe(true)
})

test('what was asked for early is the answer of the first call only, and not when it is old', async () => {
  const { api } = await modules()
  const { askEarly } = await import('../src/api/client')
  answers.mockImplementation(async () => json(200, { n: answers.mock.calls.length }))
  const read = () => api.get('/admin/overview')
  askEarly('/admin/overview')
  expect(await api.get('/admin/jobs')).toEqual({ n: 2 })
  expect([await read(), await read()]).toEqual([{ n: 1 }, { n: 3 }])
  askEarly('/admin/overview')
  vi.advanceTimersByTime(10_000)
  expect(await read()).toEqual({ n: 5 })
  askEarly('/admin/overview')
  const left = new AbortController()
  const aborted = api.get('/admin/overview', {}, left.signal)
  left.abort()
  await expect(aborted).rejects.toMatchObject({ name: 'AbortError' })
  answers.mockRejectedValueOnce(new TypeError('no network'))
  askEarly('/admin/overview')
  await expect(read()).rejects.toMatchObject({ status: 0 })
  expect(await read()).toEqual({ n: 8 })
})
