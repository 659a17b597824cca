import { openSource, type Reader } from './source'

/** A message of the tab that has the stream to the others, and their question whether it is open. */
type Sent = { kind: string; data: string } | { isOpen: boolean } | 'ask'

/**
 * Follows a stream that all tabs with the same URL share: a browser has six connections to a server with HTTP/1.1, and each
 * stream takes one as long as it is open.
 *
 * The tab that holds the lock has the stream and passes its messages on. When it closes, the next one opens it. Where there are
 * no locks, on pages without TLS that are not on this machine, each tab has its own.
 */
export function shareSource(url: string, kinds: string[], reader: Reader): () => void {
  if (!('locks' in navigator)) return openSource(url, kinds, reader)
  const name = `belvedere.stream:${url}`
  const channel = new BroadcastChannel(name)
  const send = (sent: Sent) => channel.postMessage(sent)
  const end = new AbortController()
  /** Whether the stream of this tab is open; null while another one has it. */
  let isOpen: boolean | null = null

  channel.onmessage = ({ data }: MessageEvent<Sent>) => {
    if (data === 'ask') {
      if (isOpen !== null) send({ isOpen })
    } else if (isOpen !== null) return
    else if ('isOpen' in data) reader.state(data.isOpen)
    else reader.message(data.data, data.kind)
  }

  async function lead() {
    if (end.signal.aborted) return
    isOpen = false
    const close = openSource(url, kinds, {
      message(data, kind) {
        send({ kind, data })
        reader.message(data, kind)
      },
      state(open) {
        isOpen = open
        send({ isOpen: open })
        reader.state(open)
      },
    })
    await new Promise((resolve) => end.signal.addEventListener('abort', resolve))
    close()
    send({ isOpen: false })
    channel.close()
  }

  // A request that waits ends with an error when its tab leaves.
  void navigator.locks.request(name, { signal: end.signal }, lead).catch(() => channel.close())
  send('ask')
  return () => end.abort()
}
