import { message } from './message'

/** Milliseconds that a message of success stays: enough to read two lines. Errors stay until they are closed. */
const STAYS = 6_000

/** More at once would cover the page. */
const MAX_TOASTS = 4

export interface Toast {
  id: number
  kind: 'ok' | 'error'
  /** May change while the message is shown. */
  readonly text: string
}

let list = $state.raw<Toast[]>([])
let last = 0

function show(kind: Toast['kind'], text: () => string) {
  const id = ++last
  const toast = {
    id,
    kind,
    get text() {
      return text()
    },
  }
  list = [...list.slice(1 - MAX_TOASTS), toast]
  if (kind === 'ok') setTimeout(() => toasts.close(id), STAYS)
}

/** Short messages at the edge of the page, also read aloud by screen readers. */
export const toasts = {
  get list() {
    return list
  },
  ok: (text: string) => show('ok', () => text),
  /** Shows why something failed: an error that was caught. */
  error: (error: unknown) => show('error', () => message(error)),
  close(id: number) {
    list = list.filter((toast) => toast.id !== id)
  },
}
