import { urlOf } from '../api/client'
import { ApiError, errorOf } from '../api/error'
import type { PathOf } from '../api/paths'

/** Milliseconds until the browser has certainly read the file from memory. */
const READ = 60_000

/**
 * Saves an answer of the server as a file. Unlike a link with `download` it throws, as the API does, when the server refuses,
 * so that the caller knows whether there is a file.
 */
export async function download(path: PathOf<'get'>, name: string): Promise<void> {
  const answer = await fetch(urlOf(path), { credentials: 'same-origin' }).catch(() => {
    throw new ApiError(0, { error: 'unreachable' })
  })
  if (!answer.ok) throw await errorOf(answer)
  save(await answer.blob(), name)
}

/** Saves a text as a file. */
export function saveText(text: string, name: string, type: string): void {
  save(new Blob([text], { type: `${type};charset=utf-8` }), name)
}

/** Saves a file. */
export function save(file: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(file)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), READ)
}
