import { network } from '../lib/network.svelte'
import { api } from './client'

/** Milliseconds before a stream that the server refused is opened again; each later attempt waits twice as long. */
const FIRST_WAIT = 1_000

/** The longest wait, in milliseconds. */
const MAX_WAIT = 30_000

/** The reader of one stream. */
export interface Reader {
  /** Called with the data of each message as text; `kind` is its `event:` field, `message` without one. */
  message: (data: string, kind: string) => void
  /** Called with whether messages arrive at present. */
  state: (isOpen: boolean) => void
}

/**
 * Opens a stream of server-sent events, and opens it again until the returned function is called.
 *
 * A browser opens a broken connection again by itself. It gives up when the server refuses, for example during a restart or
 * after the end of the session; then this tries again, and at once when the server is back.
 */
export function openSource(url: string, kinds: string[], reader: Reader): () => void {
  let source: EventSource | null = null
  let timer: ReturnType<typeof setTimeout> | undefined
  let wait = FIRST_WAIT

  function open() {
    clearTimeout(timer)
    source?.close()
    source = new EventSource(url)
    source.onopen = () => {
      wait = FIRST_WAIT
      reader.state(true)
    }
    const receive = (event: Event) => {
      const { data, type } = event as MessageEvent<string>
      reader.message(data, type)
    }
    for (const kind of ['message', ...kinds]) source.addEventListener(kind, receive)
    source.onerror = () => {
      reader.state(false)
      void network.check()
      if (source?.readyState !== EventSource.CLOSED) return
      // An EventSource does not tell why: if the session has ended, this answer shows the login.
      void api.get('/auth/me').catch(() => undefined)
      timer = setTimeout(open, wait)
      wait = Math.min(wait * 2, MAX_WAIT)
    }
  }

  open()
  const leaveNetwork = network.onReturn(open)
  return () => {
    leaveNetwork()
    clearTimeout(timer)
    source?.close()
  }
}
