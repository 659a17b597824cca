import { untrack } from 'svelte'
import { network } from './network.svelte'

/** Data of the server: what it is now, whether it is being read, and why it could not be. */
export interface Loaded<T> {
  readonly data: T | undefined
  readonly error: unknown
  readonly isLoading: boolean
  /** Reads it again; the old data stays until the new arrives. */
  reload(): Promise<void>
  /** Replaces the data, for example by the answer of a change. */
  set(data: T): void
}

interface Options {
  /** Whether a form begins with the data: what was read is not read again by itself, which would replace what was entered. */
  isForm?: boolean
  /** Whether the data stays when the server came back. */
  isKept?: () => boolean
}

/**
 * Reads data in a component, and again when what `read` uses changes (the URL's parameters, a state) and when the server
 * came back. An answer that a later one overtook is dropped.
 */
export function load<T>(
  read: (signal: AbortSignal) => Promise<T>,
  { isForm = false, isKept = () => false }: Options = {},
): Loaded<T> {
  let data = $state.raw<T>()
  let error = $state.raw<unknown>(null)
  let isLoading = $state(true)
  let running: AbortController | null = null

  async function run() {
    running?.abort()
    const own = (running = new AbortController())
    untrack(() => (isLoading = true))
    try {
      const answer = await read(own.signal)
      if (own.signal.aborted) return
      data = answer
      error = null
    } catch (failure) {
      if (own.signal.aborted) return
      error = failure
    }
    isLoading = false
  }

  $effect(() => {
    void run()
    return () => running?.abort()
  })
  let returns = untrack(() => network.returns)
  $effect(() => {
    if (network.returns === returns) return
    returns = network.returns
    untrack(() => isKept() || (isForm && data !== undefined) || void run())
  })

  return {
    get data() {
      return data
    },
    get error() {
      return error
    },
    get isLoading() {
      return isLoading
    },
    reload: () => untrack(run),
    set(value) {
      data = value
    },
  }
}

/** One page of a list, and the cursor of the next one. */
export interface Page<T> {
  items: T[]
  cursor?: string | null | undefined
}

export interface Pages<T> extends Loaded<T[]> {
  readonly hasMore: boolean
  /** Whether the list has more than its first page. */
  readonly isPaged: boolean
  /** Reads the next page and appends it. */
  more(): Promise<void>
}

/** As `load`, for lists that are read page by page. */
export function loadPages<T>(read: (cursor: string | undefined, signal: AbortSignal) => Promise<Page<T>>): Pages<T> {
  let cursor = $state<string | null | undefined>()
  let isAppending = $state(false)
  let isPaged = $state(false)
  let failure = $state.raw<unknown>(null)
  /** How often the list was read from its beginning. */
  let reads = 0
  const readFirst = async (signal: AbortSignal) => {
    const page = await read(undefined, signal)
    if (signal.aborted) return page.items
    reads += 1
    cursor = page.cursor
    isPaged = false
    failure = null
    return page.items
  }
  // A list of several pages keeps its place.
  const first = load(readFirst, { isKept: () => isPaged })

  return {
    get data() {
      return first.data
    },
    get error() {
      return first.error ?? failure
    },
    get isLoading() {
      return first.isLoading || isAppending
    },
    get hasMore() {
      return Boolean(cursor)
    },
    get isPaged() {
      return isPaged
    },
    async more() {
      if (!cursor || isAppending || first.isLoading) return
      isAppending = true
      const [of, before] = [cursor, reads]
      try {
        const page = await read(of, new AbortController().signal)
        // The filters may have changed in the meantime, and with them the list. New items at its beginning don't matter.
        if (reads === before && !first.isLoading) {
          first.set([...(first.data ?? []), ...page.items])
          cursor = page.cursor
          isPaged = true
          failure = null
        }
      } catch (error) {
        failure = error
      }
      isAppending = false
    },
    reload: first.reload,
    set: first.set,
  }
}
