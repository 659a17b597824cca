import { network } from '../lib/network.svelte'
import { session } from '../lib/session.svelte'
import { ApiError, errorOf } from './error'
import type { AnswerOf, BodyOf, PathOf, QueryOf } from './paths'

export { part } from './paths'

export type Query = Record<string, string | number | boolean | null | undefined>

export interface Options {
  query?: Query
  /** Sent as JSON, unless it is a `Blob` or a form, which are sent as they are. */
  body?: unknown
  signal?: AbortSignal | undefined
}

/** The server's root: the dashboard is one level below it, whatever comes before. */
export function urlOf(path: string, query: Query = {}): string {
  const url = new URL(`..${path}`, document.baseURI)
  for (const [key, value] of Object.entries(query)) {
    if (value !== '' && value !== null && value !== undefined) url.searchParams.set(key, String(value))
  }
  return url.href
}

/** Milliseconds in which an answer that was asked for early is still that of now. */
const FRESH = 10_000

const JSON_ONLY = { accept: 'application/json' }

let early: { url: string; at: number; answer: Promise<Response> } | undefined

/** Asks for what a page reads first, while its script is loaded. The first call for it gets the answer. */
export function askEarly(path: string): void {
  const url = urlOf(path)
  early = { url, at: Date.now(), answer: fetch(url, { headers: JSON_ONLY, credentials: 'same-origin' }) }
  // The call that takes it handles its failure.
  early.answer.catch(() => undefined)
}

/** The answer that was asked for early, once; nothing when that was too long ago. */
function takeEarly(url: string): Promise<Response> | undefined {
  if (early?.url !== url) return undefined
  const { at, answer } = early
  early = undefined
  return Date.now() - at < FRESH ? answer : undefined
}

/**
 * Calls the server.
 *
 * Throws an `ApiError` for every answer that is not a success, and when there is none. When the session has ended, the page
 * shows the login and then returns here.
 */
export async function call<T>(method: string, path: string, { query, body, signal }: Options = {}): Promise<T> {
  const isRaw = body instanceof Blob || body instanceof FormData
  const headers: Record<string, string> = { ...JSON_ONLY }
  if (body !== undefined && !isRaw) headers['content-type'] = 'application/json'
  const init: RequestInit = { method, headers, credentials: 'same-origin', signal: signal ?? null }
  if (body !== undefined) init.body = isRaw ? body : JSON.stringify(body)

  let answer: Response
  try {
    const url = urlOf(path, query)
    answer = await ((method === 'GET' && takeEarly(url)) || fetch(url, init))
    signal?.throwIfAborted()
  } catch (error) {
    if (signal?.aborted) throw error
    network.lost()
    throw new ApiError(0, { error: 'unreachable' })
  }
  if (!answer.ok) {
    const error = await errorOf(answer)
    if (error.status === 401 && (path === '/auth/me' || (await isLoggedOut()))) {
      error.endsSession = true
      session.ended()
    }
    // A proxy answers in place of a server that restarts.
    if ([502, 503, 504].includes(error.status) && !error.isFromServer) network.lost()
    throw error
  }
  if (answer.status === 204) return undefined as T
  const text = await answer.text()
  return (text === '' ? undefined : JSON.parse(text)) as T
}

/** Whether a 401 is about the session of the user: it may be about another account's, such as the attached one's. */
async function isLoggedOut(): Promise<boolean> {
  const answer = await fetch(urlOf('/auth/me'), { credentials: 'same-origin' }).catch(() => null)
  return answer?.status === 401
}

/** The API. Paths are those of its description, with `part(…)` for their parameters. */
export const api = {
  get: <Path extends PathOf<'get'>>(path: Path, query?: QueryOf<'get', Path>, signal?: AbortSignal) =>
    call<AnswerOf<'get', Path>>('GET', path, { query: query ?? {}, signal }),
  post: <Path extends PathOf<'post'>>(path: Path, body?: BodyOf<'post', Path>) =>
    call<AnswerOf<'post', Path>>('POST', path, { body }),
  put: <Path extends PathOf<'put'>>(path: Path, body: BodyOf<'put', Path>) =>
    call<AnswerOf<'put', Path>>('PUT', path, { body }),
  patch: <Path extends PathOf<'patch'>>(path: Path, body: BodyOf<'patch', Path>) =>
    call<AnswerOf<'patch', Path>>('PATCH', path, { body }),
  delete: <Path extends PathOf<'delete'>>(path: Path, query?: QueryOf<'delete', Path>) =>
    call<AnswerOf<'delete', Path>>('DELETE', path, { query: query ?? {} }),
}
