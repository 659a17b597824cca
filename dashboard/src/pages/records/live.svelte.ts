import { newer } from './newer'
import { repeat } from '../../lib/repeat.svelte'
import type { IndexedRecord } from '../../api/models'
import type { Pages } from '../../lib/load.svelte'

/** Milliseconds between looks for new records. */
const EVERY = 4_000

/** Pixels by which the page may be scrolled while new records are still added at its top. */
const TOP = 40

/** Records that are listed or wait, above which no more are added: the browser would become slow. */
const MAX_RECORDS = 500

/**
 * Adds records to a list as they are indexed, or keeps them aside while the list is being read, so that nothing moves.
 * `read` returns the newest records, and whether there are more than it returns.
 */
export function live(
  list: Pages<IndexedRecord>,
  read: () => Promise<{ records: IndexedRecord[]; isMore: boolean }>,
  isOn: () => boolean,
) {
  let waiting = $state.raw<IndexedRecord[]>([])
  let isMore = $state(false)
  /** The list without what this has added: another one was read meanwhile if it differs. */
  let seen: IndexedRecord[] | undefined

  function add(records: IndexedRecord[]) {
    list.set((seen = [...records, ...(list.data ?? [])]))
    waiting = []
  }

  async function look() {
    const before = list.data
    if (list.isLoading || !before) return
    if (before !== seen) {
      seen = before
      waiting = []
      isMore = false
    }
    if (isMore) return
    const found = await read().catch(() => null)
    if (!found || list.data !== before || list.isLoading) return
    const { fresh, isGap } = newer(found.records, [...waiting, ...before])
    const isFull = fresh.length > 0 && before.length + waiting.length + fresh.length > MAX_RECORDS
    if ((isGap && found.isMore) || isFull) isMore = true
    else if (fresh.length > 0 && isReading()) waiting = [...fresh, ...waiting]
    else if (fresh.length > 0 || waiting.length > 0) add([...fresh, ...waiting])
  }

  function isReading(): boolean {
    const focused = document.activeElement
    return scrollY > TOP || Boolean(focused?.closest('table, dialog')) || document.querySelector('dialog') !== null
  }

  repeat(look, EVERY, isOn)

  return {
    /** How many records wait to be shown. */
    get waiting() {
      return waiting.length
    },
    /** Whether so many records were indexed that the list has to be read again. */
    get isMore() {
      return isMore
    },
    async show() {
      if (isMore) await list.reload()
      else add(waiting)
      isMore = false
      scrollTo({ top: 0 })
    },
  }
}
