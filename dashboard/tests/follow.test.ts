import { afterEach, beforeEach, expect, test, vi } from 'vitest'

class FakeSource extends EventTarget {
  static all: FakeSource[] = []
  static readonly CLOSED = 2
  readyState = 1
  onopen: (() => void) | null = null
  onerror: (() => void) | null = null
  constructor(readonly url: string) {
    super()
    FakeSource.all.push(this)
  }
  send(kind: string, data: unknown) {
    this.dispatchEvent(new MessageEvent(kind, { data: JSON.stringify(data) }))
  }
  close() {
    this.readyState = FakeSource.CLOSED
  }
}

let page = Object.assign(new EventTarget(), { baseURI: '', hidden: false })
const fetched = vi.fn((_url: string | URL) => Promise.resolve(new Response('{}')))

beforeEach(() => {
  fetched.mockClear()
  vi.stubGlobal('fetch', fetched)
  vi.resetModules()
  vi.useFakeTimers()
  FakeSource.all = []
  page = Object.assign(new EventTarget(), { baseURI: 'https://view.example/dashboard/', hidden: false })
  vi.stubGlobal('document', page)
  vi.stubGlobal('navigator', {})
  vi.stubGlobal('addEventListener', () => undefined)
  vi.stubGlobal('EventSource', FakeSource)
})
afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

test('messages of all kinds arrive until the stream is left', async () => {
  const { follow } = await import('../src/api/events')
  const seen: unknown[] = []
  const leave = follow(
    '/admin/events/stream',
    { severity: 'error' },
    {
      kinds: ['missed'],
      message: (data, kind) => seen.push([kind, data]),
      state: (isOpen) => seen.push(isOpen),
    },
  )
  const [source] = FakeSource.all
  expect(source?.url).toBe('https://view.example/admin/events/stream?severity=error')
  source?.onopen?.()
  source?.send('message', { id: 1 })
  source?.send('missed', {})
  source?.send('unknown', {})
  expect(seen).toEqual([true, ['message', { id: 1 }], ['missed', {}]])
  expect(fetched).not.toHaveBeenCalled()
  leave()
  expect(source?.readyState).toBe(FakeSource.CLOSED)
})

test('a stream that was interrupted says so when it is open again', async () => {
  const { follow } = await import('../src/api/events')
  const reopened = vi.fn()
  const leave = follow('/admin/events/stream', {}, { message: () => undefined, reopened })
  const [source] = FakeSource.all
  source?.onopen?.()
  expect(reopened).not.toHaveBeenCalled()
  source?.onerror?.()
  source?.onopen?.()
  expect(reopened).toHaveBeenCalledOnce()
  leave()
})

test('a stream that the server refuses is opened again, each time later', async () => {
  const { follow } = await import('../src/api/events')
  const leave = follow('/admin/events/stream', {}, { message: () => undefined })
  const refuse = () => {
    const source = FakeSource.all.at(-1)
    source?.close()
    source?.onerror?.()
  }
  refuse()
  await vi.advanceTimersByTimeAsync(1_000)
  expect(FakeSource.all).toHaveLength(2)
  // The reason may be that the session has ended.
  expect(fetched.mock.calls.map(([url]) => String(url))).toEqual([
    'https://view.example/livez',
    'https://view.example/auth/me',
  ])
  refuse()
  await vi.advanceTimersByTimeAsync(1_000)
  expect(FakeSource.all).toHaveLength(2)
  await vi.advanceTimersByTimeAsync(1_000)
  expect(FakeSource.all).toHaveLength(3)
  refuse()
  leave()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(FakeSource.all).toHaveLength(3)
})

test('a tab that nobody sees has no stream, and catches up when it is shown', async () => {
  const { follow } = await import('../src/api/events')
  const reopened = vi.fn()
  const leave = follow('/admin/events/stream', {}, { message: () => undefined, reopened })
  FakeSource.all[0]?.onopen?.()
  const show = (isShown: boolean) => {
    page.hidden = !isShown
    page.dispatchEvent(new Event('visibilitychange'))
  }
  show(false)
  expect(FakeSource.all[0]?.readyState).toBe(FakeSource.CLOSED)
  show(true)
  expect(FakeSource.all).toHaveLength(2)
  expect(reopened).not.toHaveBeenCalled()
  FakeSource.all[1]?.onopen?.()
  expect(reopened).toHaveBeenCalledOnce()
  leave()
  show(false)
  show(true)
  expect(FakeSource.all).toHaveLength(2)
})
