import type { RecordField } from '../../api/models'
import type { Column } from '../../components/table'
import { isPath } from './fields'

type Direction = NonNullable<Column<unknown>['sorted']>

/** The fields by which a list can be ordered. */
export const sortable = (fields: RecordField[]) =>
  fields.filter(({ path, type }) => isPath(path) && type !== 'array' && type !== 'object')

/** What a column is called in `sort`; null when the list can't be ordered by it. */
export function sortName(column: string, fields: RecordField[]): string | null {
  if (column === '@indexed') return 'indexed_at'
  return sortable(fields).some(({ path }) => path === column) ? column : null
}

/** How a list with this `sort` is ordered by a column. Without one the newest are first, but the matches of a search. */
export function directionOf(name: string, sort: string, isSearch: boolean): Direction {
  const order = sort || (isSearch ? '' : '-indexed_at')
  if (order === name) return 'ascending'
  return order === `-${name}` ? 'descending' : 'none'
}

/** The `sort` after a click on the head of a column: times begin with the latest, the others with the smallest. */
export function nextSort(name: string, direction: Direction): string {
  const first = name === 'indexed_at' ? 'descending' : 'ascending'
  const next = direction === 'none' ? first : direction === 'ascending' ? 'descending' : 'ascending'
  // The order of the list without `sort`.
  if (name === 'indexed_at' && next === 'descending') return ''
  return next === 'ascending' ? name : `-${name}`
}
