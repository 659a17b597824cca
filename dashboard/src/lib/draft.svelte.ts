import { untrack } from 'svelte'
import { keepDraft, readDraft } from './drafts'
import { session } from './session.svelte'

/** Keeps a form's fields in the tab while they differ from what is stored. */
export interface Draft {
  readonly isChanged: boolean
  /** Whether the fields began with a draft. */
  readonly isRestored: boolean
  /** Whether something else was stored since the draft began. */
  readonly isOvertaken: boolean
  /** Takes the fields as they are for stored. */
  saved(): void
  /** Puts what is stored into the fields. */
  discard(): void
}

interface Options<T> {
  /** The fields, without secrets: they would stay in the browser. */
  read: () => T
  write: (value: T) => void
  /** The fields of what is stored; undefined while it is being read. Without it a form begins with what is stored. */
  stored?: () => T | undefined
}

/**
 * Keeps a form's fields under its name, which is the same when its page is opened again. Called while a component is made.
 * `Form` takes the draft and shows it; other forms show it by `Restored` and have `data-unsaved="kept"` while it is changed.
 */
export function draft<T>(form: string, { read, write, stored }: Options<T>): Draft {
  const key = `${session.me?.did ?? ''}:${form}`
  const begun = untrack(() => JSON.stringify(read()))
  const storedText = $derived(stored ? JSON.stringify(stored()) : begun)
  /** The fields that were saved. They count as stored until what is stored is read again. */
  let last = $state.raw<{ fields: string; over: string } | null>(null)
  const kept = readDraft(key, sessionStorage)
  let isRestored = $state(false)
  let isWaiting = true

  // While it is being read, nothing was saved over it.
  const base = $derived(last && last.over === storedText ? last.fields : storedText)
  const now = $derived(JSON.stringify(read()))
  const isChanged = $derived(base !== undefined && now !== base)

  function restore() {
    isWaiting = false
    if (!kept || JSON.stringify(kept.value) === base) return
    write(kept.value as T)
    isRestored = true
  }
  if (untrack(() => base) !== undefined) untrack(restore)

  $effect(() => {
    if (base === undefined) return
    if (isWaiting) untrack(restore)
    keepDraft(
      key,
      isChanged ? { value: read(), base: untrack(() => (isRestored && kept ? kept.base : base)) } : null,
      sessionStorage,
    )
  })

  return {
    get isChanged() {
      return isChanged
    },
    get isRestored() {
      return isRestored && isChanged
    },
    get isOvertaken() {
      return isRestored && kept?.base !== base
    },
    saved() {
      last = { fields: JSON.stringify(read()), over: storedText }
      isRestored = false
      keepDraft(key, null, sessionStorage)
    },
    discard() {
      isRestored = false
      write(JSON.parse(base) as T)
    },
  }
}
