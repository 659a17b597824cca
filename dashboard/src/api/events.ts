import { api, urlOf } from './client'
import type { PathOf, QueryOf } from './paths'

/** Milliseconds before a stream that the server refused is opened again; each later attempt waits twice as long. */
const FIRST_WAIT = 1_000

/** The longest wait, in milliseconds. */
const MAX_WAIT = 30_000

export interface Listener {
  /** Called with the data of each message; `kind` is its `event:` field, `message` without one. */
  message: (data: unknown, kind: string) => void
  /** Called with whether messages arrive at present. */
  state?: (isOpen: boolean) => void
  /** Called when a stream that was interrupted is open again: what was sent meanwhile is lost. */
  reopened?: () => void
  /** The kinds of messages to listen to, besides those without one. */
  kinds?: string[]
}

/**
 * Follows a stream of server-sent events until the returned function is called.
 *
 * A browser opens a broken connection again by itself. It gives up when the server refuses, for example during a restart or
 * after the end of the session; then this tries again.
 */
export function follow<Path extends PathOf<'get'>>(
  path: Path,
  query: QueryOf<'get', Path>,
  listener: Listener,
): () => void {
  let source: EventSource | null = null
  let timer: ReturnType<typeof setTimeout> | undefined
  let wait = FIRST_WAIT
  let wasOpen = false

  function open() {
    source = new EventSource(urlOf(path, query))
    source.onopen = () => {
      wait = FIRST_WAIT
      listener.state?.(true)
      if (wasOpen) listener.reopened?.()
      wasOpen = true
    }
    const receive = (event: Event) => {
      const { data, type } = event as MessageEvent<string>
      listener.message(JSON.parse(data), type)
    }
    for (const kind of ['message', ...(listener.kinds ?? [])]) source.addEventListener(kind, receive)
    source.onerror = () => {
      listener.state?.(false)
      if (source?.readyState !== EventSource.CLOSED) return
      // An EventSource does not tell why: if the session has ended, this answer shows the login.
      void api.get('/auth/me').catch(() => undefined)
      timer = setTimeout(open, wait)
      wait = Math.min(wait * 2, MAX_WAIT)
    }
  }

  open()
  return () => {
    clearTimeout(timer)
    source?.close()
  }
}
