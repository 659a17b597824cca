const KEY = 'belvedere.script:'

/**
 * What was written and not saved, kept in the browser's tab: a login or a reload loses nothing.
 *
 * It belongs to the saved text from which it began: when another one was saved in the meantime, both are known.
 */
export interface Draft {
  body: string
  base: string
}

type Store = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>

export function readDraft(id: string, storage: Store): Draft | null {
  try {
    const draft: unknown = JSON.parse(storage.getItem(KEY + id) ?? 'null')
    if (typeof draft !== 'object' || draft === null) return null
    const { body, base } = draft as Partial<Draft>
    return typeof body === 'string' && typeof base === 'string' ? { body, base } : null
  } catch {
    return null
  }
}

/** Keeps a draft; one that is the saved text is removed. */
export function keepDraft(id: string, { body, base }: Draft, storage: Store): void {
  if (body === base) storage.removeItem(KEY + id)
  else storage.setItem(KEY + id, JSON.stringify({ body, base }))
}
