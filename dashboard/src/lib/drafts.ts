/**
 * Text that was entered and not saved, kept in the browser's tab: a login, a reload or another page loses nothing.
 *
 * A draft belongs to the stored value from which it began: when another one was stored in the meantime, both are known.
 */
export interface Kept {
  value: unknown
  /** The stored value as JSON. */
  base: string
}

type Store = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>

const PREFIX = 'belvedere.draft:'

/** The draft of a form, or null. What can't be read is as good as none. */
export function readDraft(key: string, storage: Store): Kept | null {
  try {
    const kept: unknown = JSON.parse(storage.getItem(PREFIX + key) ?? 'null')
    if (typeof kept !== 'object' || kept === null) return null
    const { value, base } = kept as Partial<Kept>
    return value !== undefined && typeof base === 'string' ? { value, base } : null
  } catch {
    return null
  }
}

/** Keeps a draft, or removes it with null. A full storage keeps none: the page still asks before it is left. */
export function keepDraft(key: string, kept: Kept | null, storage: Store): void {
  try {
    if (kept === null) storage.removeItem(PREFIX + key)
    else storage.setItem(PREFIX + key, JSON.stringify(kept))
  } catch {
    storage.removeItem(PREFIX + key)
  }
}

/** Removes all drafts: the next user of this tab is someone else. */
export function forgetDrafts(storage: Storage): void {
  for (const key of Object.keys(storage)) if (key.startsWith(PREFIX)) storage.removeItem(key)
}
