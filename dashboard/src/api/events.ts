import { urlOf } from './client'
import type { PathOf, QueryOf } from './paths'
import { shareSource } from './shared'

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
 * Follows a stream of server-sent events until the returned function is called. A tab that nobody sees takes no part: it is
 * told that the stream is open again when it is shown.
 */
export function follow<Path extends PathOf<'get'>>(
  path: Path,
  query: QueryOf<'get', Path>,
  listener: Listener,
): () => void {
  let leave: (() => void) | null = null
  let wasOpen = false
  let isOpen = false

  function state(open: boolean) {
    listener.state?.(open)
    if (open && !isOpen && wasOpen) listener.reopened?.()
    isOpen = open
    wasOpen ||= open
  }
  const message = (data: string, kind: string) => listener.message(JSON.parse(data), kind)

  function look() {
    if (!document.hidden) leave ??= shareSource(urlOf(path, query), listener.kinds ?? [], { message, state })
    else if (leave) {
      leave()
      leave = null
      state(false)
    }
  }

  look()
  document.addEventListener('visibilitychange', look)
  return () => {
    document.removeEventListener('visibilitychange', look)
    leave?.()
  }
}
