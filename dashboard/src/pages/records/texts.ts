import { count, plural } from '../../lib/format'
import type { Format } from './counter'

export const filters = {
  /** Of a list in another order than by time. */
  inOrder: 'What is indexed.',
  search: 'Search',
  more: 'More filters',
  fewer: 'Fewer filters',
  searchHint: 'Words of a record, handle, DID, at:// URI or key:…',
  sort: 'Order',
  newest: 'Newest first',
  ascending: (field: string) => `${field} ↑`,
  descending: (field: string) => `${field} ↓`,
  oldest: 'Oldest first',
  slow: 'No index serves this order: the server reads every record.',
  byMatch: 'Best matches first.',
}

export const condition = {
  add: 'Add a condition',
  title: 'Condition on a field',
  field: 'Field',
  fieldHint: 'From the lexicon, or any path: a.b[0].c',
  badField: 'A path is names joined by dots: a.b[0].c',
  operator: 'Operator',
  value: 'Value',
  values: 'Values',
  valuesHint: 'Separated by commas',
  lowest: 'Lowest',
  highest: 'Highest',
  badValue: 'This field takes a whole number.',
  yes: 'true',
  no: 'false',
}

export const columns = {
  open: 'Columns',
  title: 'Columns of this collection',
  shown: 'Shown, in this order',
  others: 'More fields of the lexicon',
  noOthers: 'All fields are shown.',
  none: 'The lexicon declares no fields.',
  up: (name: string) => `Move ${name} up`,
  down: (name: string) => `Move ${name} down`,
  show: (name: string) => `Show ${name}`,
  hide: (name: string) => `Hide ${name}`,
  standard: 'Standard columns',
  names: { '@record': 'Record', '@content': 'Content', '@state': 'State', '@indexed': 'Indexed' } as Record<
    string,
    string
  >,
}

export const exporting = {
  open: 'Export',
  title: (collection: string) => `Export ${collection}`,
  text: 'The file has the records that the filter of this page finds, in its order. Records that are indexed meanwhile are left out.',
  format: 'Format',
  formats: [
    { value: 'csv' as Format, title: 'CSV', text: 'For spreadsheets: a column for each field of the lexicon.' },
    {
      value: 'jsonl' as Format,
      title: 'JSON lines',
      text: 'For programs: each record as it is, with its URI and CID.',
    },
  ],
  shownOnly: 'Only the columns of this page:',
  start: 'Export',
  cancel: 'Cancel',
  progress: (records: number) => `${plural(records, 'record')} so far…`,
  complete: (records: number) => `Done: ${plural(records, 'record')}.`,
  broken: (records: number) => `${plural(records, 'record')}; the connection broke: the file is incomplete.`,
  cancelled: (records: number) => `Cancelled after ${plural(records, 'record')}: the file is incomplete.`,
  saveIncomplete: 'Save the incomplete file',
  again: 'Export again',
  close: 'Close',
}

export const bulk = {
  group: 'Selected records',
  selected: (number: number) => `${count(number)} selected`,
  none: 'Clear the selection',
  hide: 'Hide',
  takedown: 'Take down',
  delete: 'Delete from the index',
  titles: {
    hide: (number: number) => `Hide ${plural(number, 'record')}?`,
    takedown: (number: number) => `Take down ${plural(number, 'record')}?`,
    delete: (number: number) => `Delete ${plural(number, 'record')} from the index?`,
  },
  texts: {
    hide: 'Lists, joins, counts and searches of this server leave them out. Direct links still find them.',
    takedown: 'This server answers as if they did not exist.',
    delete: 'The repos keep them, and a later change or a backfill indexes them again. To keep them out, hide them.',
  },
  reason: 'Reason',
  reasonHint: 'It is stored with each record’s event in the log.',
  progress: (done: number, all: number) => `${count(done)} of ${count(all)}…`,
  done: {
    hide: (number: number) => `${plural(number, 'record')} hidden.`,
    takedown: (number: number) => `${plural(number, 'record')} taken down.`,
    delete: (number: number) => `${plural(number, 'record')} deleted from the index.`,
  },
  failed: (number: number) => `${plural(number, 'record')} not changed, and still selected:`,
  more: (number: number) => `and ${count(number)} more`,
  close: 'Close',
}
