/** The columns of the records of a collection, which the user chooses. They are kept in this browser. */

/** Columns that are no fields. The others are the paths of fields. */
export const BUILT_IN = ['@record', '@content', '@state', '@indexed'] as const

type Store = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>

/** Columns of a collection: more can't be read side by side. */
export const MAX_COLUMNS = 12

const keyOf = (collection: string) => `belvedere.columns.${collection}`

/** The columns in their order; the standard ones when none were chosen, or what was kept can't be read. */
export function columnsOf(collection: string, store: Store): string[] {
  try {
    const found: unknown = JSON.parse(store.getItem(keyOf(collection)) ?? 'null')
    if (!Array.isArray(found)) return [...BUILT_IN]
    const columns = [...new Set(found.filter((one) => typeof one === 'string'))].slice(0, MAX_COLUMNS)
    return columns.length > 0 ? columns : [...BUILT_IN]
  } catch {
    return [...BUILT_IN]
  }
}

/** Keeps the columns; none are the standard ones. */
export function keepColumns(collection: string, columns: string[], store: Store): void {
  if (columns.length === 0 || columns.join() === BUILT_IN.join()) store.removeItem(keyOf(collection))
  else store.setItem(keyOf(collection), JSON.stringify(columns.slice(0, MAX_COLUMNS)))
}

/** The columns of every export, before the fields. */
const METADATA = ['uri', 'cid', 'did', 'rkey', 'indexedAt']

/** The columns that are shown as an export names them, with the URI first. None when no field is chosen: then all are exported. */
export function csvColumns(columns: string[]): string[] {
  const fields = columns.filter((column) => !column.startsWith('@'))
  if (fields.length === 0) return []
  const names: Record<string, string[]> = { '@record': [], '@content': [], '@state': [], '@indexed': ['indexedAt'] }
  const named = columns.flatMap((one) => names[one] ?? (METADATA.includes(one) ? `record.${one}` : one))
  return ['uri', ...named]
}

/** The columns with one of them a place further up or down. */
export function moved(columns: string[], column: string, by: 1 | -1): string[] {
  const [from, to] = [columns.indexOf(column), columns.indexOf(column) + by]
  if (from < 0 || to < 0 || to >= columns.length) return columns
  const next = columns.filter((one) => one !== column)
  next.splice(to, 0, column)
  return next
}
