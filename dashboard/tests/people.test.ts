import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Person } from '../src/api/models/access'
import { People } from '../src/lib/people.svelte'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** People of a server that knows these handles, with the requests that it got. */
function known(handles: Record<string, string>) {
  const requests: string[][] = []
  const ask = async (dids: string[]): Promise<Person[]> => {
    requests.push(dids)
    return dids.map((did) => (handles[did] ? { did, handle: handles[did] } : { did }))
  }
  return { people: new People(ask), requests, handles }
}

test('asks once for all accounts of a page', async () => {
  const { people, requests } = known({ 'did:plc:a': 'a.example', 'did:plc:b': 'b.example' })
  expect([people.of('did:plc:a'), people.of('did:plc:b'), people.of('did:plc:a')]).toEqual([null, null, null])
  await vi.advanceTimersByTimeAsync(60_000)
  expect(requests).toEqual([['did:plc:a', 'did:plc:b']])
  expect(people.of('did:plc:a')?.handle).toBe('a.example')
  await vi.advanceTimersByTimeAsync(10 * 60_000)
  people.of('did:plc:a')
  await vi.advanceTimersByTimeAsync(0)
  expect(requests.length).toBe(2)
})

test('asks in batches that fit into an address', async () => {
  const { people, requests } = known({})
  for (let n = 0; n < 101; n += 1) people.of(`did:plc:${n}`)
  for (let n = 0; n < 3; n += 1) people.of(`did:web:${'a'.repeat(1_900)}${n}`)
  await vi.advanceTimersByTimeAsync(0)
  expect(requests.map((dids) => dids.length)).toEqual([100, 3, 1])
  expect(new Set(requests.flat()).size).toBe(104)
})

test('asks once more for a handle that was not known', async () => {
  const { people, requests, handles } = known({})
  people.of('did:plc:a')
  await vi.advanceTimersByTimeAsync(1_000)
  handles['did:plc:a'] = 'a.example'
  expect(people.of('did:plc:a')).toEqual({ did: 'did:plc:a' })
  await vi.advanceTimersByTimeAsync(4_000)
  expect(people.of('did:plc:a')?.handle).toBe('a.example')
  await vi.advanceTimersByTimeAsync(60_000)
  expect(requests.length).toBe(2)
})

test('a failure is not repeated at once', async () => {
  let failures = 0
  const people = new People(async () => {
    failures += 1
    throw new Error('down')
  })
  for (const _ of [1, 2]) {
    expect(people.of('did:plc:a')).toBeNull()
    await vi.advanceTimersByTimeAsync(1_000)
  }
  expect(failures).toBe(1)
  await vi.advanceTimersByTimeAsync(30_000)
  people.of('did:plc:a')
  await vi.advanceTimersByTimeAsync(0)
  expect(failures).toBe(2)
})
