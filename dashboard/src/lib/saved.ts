/** Filters of a page that the user has given a name. They are kept in this browser. */
export interface Saved {
  name: string
  query: Record<string, string>
}

/** Filters that one page keeps: more is no longer a short list. */
const MAX_SAVED = 20

type Store = Pick<Storage, 'getItem' | 'setItem'>

const keyOf = (page: string) => `belvedere.filters.${page}`

/** The filters of a page, by name. What can't be read is as good as none. */
export function savedOf(page: string, store: Store): Saved[] {
  try {
    const found: unknown = JSON.parse(store.getItem(keyOf(page)) ?? '[]')
    return Array.isArray(found) ? found.filter(isSaved) : []
  } catch {
    return []
  }
}

/** Keeps a filter, in place of the one with its name. */
export function keep(page: string, saved: Saved, store: Store): Saved[] {
  const others = savedOf(page, store).filter(({ name }) => name !== saved.name)
  return write(page, [...others, saved].slice(-MAX_SAVED), store)
}

export function forget(page: string, name: string, store: Store): Saved[] {
  const others = savedOf(page, store).filter((saved) => saved.name !== name)
  return write(page, others, store)
}

function write(page: string, all: Saved[], store: Store): Saved[] {
  const sorted = all.toSorted((a, b) => a.name.localeCompare(b.name))
  store.setItem(keyOf(page), JSON.stringify(sorted))
  return sorted
}

function isSaved(value: unknown): value is Saved {
  const { name, query } = (value ?? {}) as Saved
  if (typeof name !== 'string' || typeof query !== 'object' || query === null) return false
  return Object.values(query).every((one) => typeof one === 'string')
}
