import { afterEach, beforeEach, expect, test, vi } from 'vitest'

const answers = vi.fn<typeof fetch>()
const stored = new Map<string, string>()
const place = {
  hash: '',
  pathname: '/dashboard/',
  replace: (to: string) => (place.hash = to),
  reload: () => undefined as void,
}

beforeEach(() => {
  vi.resetModules()
  answers.mockReset()
  stored.clear()
  stored.set('belvedere.attach', 'did:plc:operator')
  vi.stubGlobal('document', { baseURI: 'https://view.example/dashboard/' })
  vi.stubGlobal('addEventListener', () => undefined)
  vi.stubGlobal('location', place)
  vi.stubGlobal('fetch', answers)
  vi.stubGlobal('sessionStorage', {
    getItem: (key: string) => stored.get(key) ?? null,
    removeItem: (key: string) => stored.delete(key),
  })
})
afterEach(() => vi.unstubAllGlobals())

/** Why attaching failed after the login returned to a place, or that the page began anew. */
async function endAt(hash: string): Promise<string | null> {
  place.hash = hash
  const [{ finishAttach }, { attaching }, { message }] = await Promise.all([
    import('../src/api/attach'),
    import('../src/api/attaching'),
    import('../src/lib/message'),
  ])
  const again = new Promise<boolean>((resolve) => (place.reload = () => resolve(true)))
  const begunAgain = await Promise.race([again, finishAttach().then(() => false)])
  expect(stored.size).toBe(0)
  if (begunAgain) return 'a new page'
  return attaching.failure ? message(attaching.failure) : null
}

test('after a login that is accepted the page begins anew as its user', async () => {
  answers.mockResolvedValue(new Response(null, { status: 204 }))
  expect(await endAt('#/identity')).toBe('a new page')
  expect(answers.mock.calls[0]?.[1]?.body).toBe('{"original_did":"did:plc:operator"}')
})

test('the reason of the server is kept for the page', async () => {
  answers.mockResolvedValue(new Response('{"error":"the login lacks the scope identity:*"}', { status: 400 }))
  expect(await endAt('#/identity')).toBe('The login lacks the scope identity:*.')
})

test('a login that failed leads back to the identity with its reason', async () => {
  expect(await endAt('#/login?error=wrong_account')).toContain('Another account logged in')
  expect([place.hash, answers.mock.calls.length]).toEqual(['#/identity', 0])
})
