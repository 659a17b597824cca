import type { Loaded, Pages } from '../lib/load.svelte'
import type { Snippet } from 'svelte'

/** A column of a table. */
export interface Column<T> {
  key: string
  title: string
  /** The cell, which also gets the column's key; without one it is the text of `value`. */
  cell?: Snippet<[T, string]>
  value?: (row: T) => string | number
  /** Numbers are aligned to the right. */
  number?: boolean
  /** Takes the space that is left, and cuts what does not fit; `narrow`: on narrow screens only. */
  grow?: boolean | 'narrow'
  /** Keeps its text on one line. */
  oneLine?: boolean
  /** Left out on narrow screens. */
  wide?: boolean
  /** How the rows are ordered by this column; its head is a button that calls `onsort`. */
  sorted?: 'ascending' | 'descending' | 'none'
  onsort?: () => void
}

/** What reads the rows of a table: whether it runs, why it failed, and whether there are more. */
export type RowSource = Omit<Loaded<unknown>, 'data' | 'set'> & Partial<Pick<Pages<unknown>, 'hasMore' | 'more'>>
