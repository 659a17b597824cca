import { beforeEach, expect, test, vi } from 'vitest'

/** The streams that were opened, by the tab that has them. */
const opened: { state: (isOpen: boolean) => void; message: (data: string, kind: string) => void; close: () => void }[] =
  []
vi.mock('../src/api/source', () => ({
  openSource: (_url: string, _kinds: string[], reader: (typeof opened)[number]) => {
    const close = vi.fn()
    opened.push({ ...reader, close })
    return close
  },
}))

/** Exclusive locks, as browsers have them. */
function locks() {
  let last: Promise<unknown> = Promise.resolve()
  return {
    request(_name: string, { signal }: { signal: AbortSignal }, run: () => Promise<void>) {
      const mine = last.then(() => (signal.aborted ? undefined : run()))
      last = mine
      return mine
    },
  }
}

beforeEach(() => {
  opened.length = 0
  vi.stubGlobal('navigator', { locks: locks() })
})

const settled = () => new Promise((resolve) => setTimeout(resolve, 20))

test('tabs share one stream, and the next tab opens it when the first one leaves', async () => {
  const { shareSource } = await import('../src/api/shared')
  const seen: string[][] = [[], [], []]
  const join = (log: string[]) =>
    shareSource('https://view.example/stream', [], {
      message: (data) => log.push(data),
      state: (isOpen) => log.push(isOpen ? 'open' : 'closed'),
    })
  const leave = seen.slice(0, 2).map(join)
  await settled()
  expect(opened).toHaveLength(1)
  opened[0]?.state(true)
  opened[0]?.message('a', 'message')
  await settled()
  // The answer to a tab that comes later is for all: the others know it already.
  leave.push(join(seen[2]!))
  await settled()
  expect(seen).toEqual([['open', 'a'], ['closed', 'open', 'a', 'open'], ['open']])

  leave[0]?.()
  await settled()
  expect(opened[0]?.close).toHaveBeenCalledOnce()
  expect(opened).toHaveLength(2)
  opened[1]?.state(true)
  opened[1]?.message('b', 'message')
  await settled()
  expect(seen[0]).toEqual(['open', 'a'])
  expect(seen[1]?.slice(-2)).toEqual(['open', 'b'])
  expect(seen[2]).toEqual(['open', 'closed', 'open', 'b'])
  leave.forEach((end) => end())
  await settled()
  expect(opened).toHaveLength(2)
})
