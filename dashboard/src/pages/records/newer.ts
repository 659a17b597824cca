import type { IndexedRecord } from '../../api/models'

type Indexed = Pick<IndexedRecord, 'uri' | 'indexed_at'>

/**
 * The records of the newest page that stand before those of a list, and whether more may stand between: then none of the page
 * is in the list. The place in the order decides: many records have one `indexed_at`.
 */
export function newer<T extends Indexed>(page: T[], list: Indexed[]): { fresh: T[]; isGap: boolean } {
  // A record that was indexed again has a new place.
  const placeOf = ({ uri, indexed_at: at }: Indexed) => `${at} ${uri}`
  const places = new Set(list.map(placeOf))
  const first = page.findIndex((record) => places.has(placeOf(record)))
  const known = new Set(list.map(({ uri }) => uri))
  const before = first < 0 ? page : page.slice(0, first)
  return { fresh: before.filter(({ uri }) => !known.has(uri)), isGap: first < 0 }
}
