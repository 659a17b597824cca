import { urlOf } from '../../api/client'
import type { Query } from '../../api/client'
import { ApiError, errorOf } from '../../api/error'
import { counter, type Format } from './counter'

export interface Exported {
  /** What has arrived. */
  file: Blob
  records: number
  end: 'complete' | 'cancelled' | 'broken'
}

/** Bytes after which what has arrived becomes a blob, which the browser may keep on disk. */
const PART = 8 << 20

/** Reads an export. Throws when the server refuses it; what arrived before the connection broke is returned. */
export async function readExport(
  format: Format,
  query: Query,
  signal: AbortSignal,
  onprogress: (records: number) => void,
): Promise<Exported> {
  const url = urlOf('/admin/records/export', { ...query, format })
  const answer = await fetch(url, { credentials: 'same-origin', signal }).catch((error: unknown) => {
    if (signal.aborted) throw error
    throw new ApiError(0, { error: 'unreachable' })
  })
  if (!answer.ok) throw await errorOf(answer)
  const type = answer.headers.get('content-type') ?? ''
  const count = counter(format)
  let [parts, fresh, size]: [Blob[], Uint8Array<ArrayBuffer>[], number] = [[], [], 0]
  const pack = () => {
    parts = [...parts, new Blob(fresh)]
    ;[fresh, size] = [[], 0]
  }
  const file = () => {
    pack()
    return new Blob(parts, { type })
  }
  const reader = answer.body?.getReader()
  try {
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
      if (done || !value) return { file: file(), records: count.records, end: 'complete' }
      count.add(value)
      fresh.push(value)
      size += value.length
      if (size >= PART) pack()
      onprogress(count.records)
    }
  } catch {
    return { file: file(), records: count.records, end: signal.aborted ? 'cancelled' : 'broken' }
  }
}
