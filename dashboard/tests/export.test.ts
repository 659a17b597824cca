import { afterEach, beforeEach, expect, test, vi } from 'vitest'

const answers = vi.fn<typeof fetch>()

beforeEach(() => {
  vi.resetModules()
  answers.mockReset()
  vi.stubGlobal('document', { baseURI: 'https://view.example/dashboard/', querySelector: () => null })
  vi.stubGlobal('addEventListener', () => undefined)
  vi.stubGlobal('fetch', answers)
})
afterEach(() => vi.unstubAllGlobals())

/** An answer whose body has these parts, and then ends, breaks, or goes on. */
function body(parts: string[], end: 'ends' | 'breaks' | 'stays open', signal?: AbortSignal) {
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const part of parts) controller.enqueue(new TextEncoder().encode(part))
      if (end === 'ends') controller.close()
      signal?.addEventListener('abort', () => controller.error(new Error('aborted')))
    },
    pull(controller) {
      if (end === 'breaks') controller.error(new TypeError('network error'))
    },
  })
  return new Response(stream, { headers: { 'content-type': 'application/jsonl; charset=utf-8' } })
}

async function run(
  answer: Response,
  aborter = new AbortController(),
  onprogress: (records: number) => void = () => {},
) {
  const { readExport } = await import('../src/pages/records/export')
  answers.mockResolvedValueOnce(answer)
  return readExport('jsonl', { collection: 'a.b.c', sort: null }, aborter.signal, onprogress)
}

test('a complete file has all that arrived', async () => {
  const seen: number[] = []
  const { file, ...rest } = await run(body(['{"a":1}\n{"b"', ':2}\n'], 'ends'), undefined, (records) =>
    seen.push(records),
  )
  expect([rest, seen]).toEqual([{ records: 2, end: 'complete' }, [1, 2]])
  expect([await file.text(), file.type]).toEqual(['{"a":1}\n{"b":2}\n', 'application/jsonl; charset=utf-8'])
  expect(answers.mock.calls[0]?.[0]).toBe('https://view.example/admin/records/export?collection=a.b.c&format=jsonl')
})

test('a file that broke off, or was cancelled, says so', async () => {
  const { file, ...broken } = await run(body(['{"a":1}\n{"b"'], 'breaks'))
  expect([broken, await file.text()]).toEqual([{ records: 1, end: 'broken' }, '{"a":1}\n{"b"'])
  const aborter = new AbortController()
  const read = run(body(['{"a":1}\n'], 'stays open', aborter.signal), aborter, () => aborter.abort())
  expect((await read).end).toBe('cancelled')
})

test('an export that the server refuses is an error', async () => {
  const refusal = new Response('{"error":"too many exports are running"}', { status: 429 })
  await expect(run(refusal)).rejects.toMatchObject({ status: 429 })
})
