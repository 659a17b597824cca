import { typed } from './typed'
import { isInSpace } from './uri'

type Scalar = string | number | boolean

/** A condition on a field of a record, as the filter of `db.query` takes it. */
export interface Condition {
  field: string
  op: string
  value?: Scalar | Scalar[]
}

const CONDITION =
  /^([\w.[\]]+)\s*(?:(exists|missing)|(!=|<=|>=|=|<|>|not like\b|like\b|contains\b|begins with\b|not in\b|in\b|between\b)\s*(.+))$/i

/** Splits at `and`, but not within quotes. */
const PARTS = /(?:"(?:[^"\\]|\\.)*"|(?!\s+and\s)[^"]|")+/gi

/** Reads `text contains hello and n > 5`. Null if a part is no condition. */
export function parseConditions(text: string): Condition[] | null {
  const parts = `${text} `.match(PARTS) ?? []
  const conditions = parts
    .map((part) => part.replace(/^and\s+/i, '').trim())
    .filter(Boolean)
    .map(parseCondition)
  return conditions.every((one) => one !== null) ? conditions : null
}

function parseCondition(text: string): Condition | null {
  const match = CONDITION.exec(text)
  if (!match) return null
  const [, field = '', alone, word = '', given = ''] = match
  if (alone) return { field, op: alone.toUpperCase() }
  const op = word.toUpperCase()
  if (['IN', 'NOT IN', 'BETWEEN'].includes(op)) {
    const value = list(given.trim())
    return value && (op !== 'BETWEEN' || value.length === 2) ? { field, op, value } : null
  }
  const value = scalar(given.trim())
  if (op === 'CONTAINS') return { field, op: 'LIKE', value: `%${String(value).replace(/[\\%_]/g, '\\$&')}%` }
  if (op === 'BEGINS WITH') return { field, op: 'PREFIX', value: String(value) }
  return { field, op, value: op.endsWith('LIKE') ? String(value) : value }
}

/** A JSON number, truth value or string; anything else is text as it stands. */
function scalar(text: string): Scalar {
  try {
    const value: unknown = JSON.parse(text)
    if (isScalar(value)) return value
  } catch {
    // It is text.
  }
  return text
}

/** A list in JSON, `[1, 5]`. Null for anything else. */
function list(text: string): Scalar[] | null {
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) && value.length > 0 && value.every(isScalar) ? value : null
  } catch {
    return null
  }
}

const isScalar = (value: unknown): value is Scalar => ['string', 'number', 'boolean'].includes(typeof value)

/** The text of a condition, which `parseConditions` reads. */
export function conditionText(field: string, op: string, value?: Scalar | Scalar[]): string {
  return [field, op, ...(value === undefined ? [] : [JSON.stringify(value)])].join(' ')
}

/** What a search names: an account, a record's key, or with a URI both and the collection. */
export interface Named {
  collection?: string
  repo: string | null
  rkey: string | null
}

const HANDLE = /^@?[a-z0-9-]+(\.[a-z0-9-]+)+$/i

/**
 * Reads a DID, a handle, an `at://` URI or a part of one, or a record's key. A URI in a space, or one of more than three
 * parts, becomes the key as a whole: the server refuses it.
 */
export function parseNamed(text: string): Named {
  const trimmed = typed(text)
  if (trimmed.startsWith('at://')) {
    const [repo = '', collection, rkey, more] = trimmed.slice('at://'.length).split('/')
    if (isInSpace(trimmed) || more) return { repo: null, rkey: trimmed }
    return { ...(collection ? { collection } : {}), repo: repo || null, rkey: rkey || null }
  }
  if (trimmed.startsWith('did:')) return { repo: trimmed, rkey: null }
  if (HANDLE.test(trimmed)) return { repo: trimmed.replace(/^@/, ''), rkey: null }
  return { repo: null, rkey: trimmed || null }
}

/** The text that `parseNamed` reads. */
export function namedText(collection: string, repo: string, rkey: string): string {
  return repo && rkey ? `at://${repo}/${collection}/${rkey}` : repo || rkey
}

/** The forms of keys that the network makes: they are no words. */
const TID = /^[2-7a-j][2-7a-z]{12}$/

/** What the search box says: an account or a record, or else a text that records contain. */
export interface Searched extends Named {
  text: string | null
}

/** Reads what `parseNamed` reads, a key as `key:…`, and any other text, also in quotes. */
export function parseSearch(typedText: string): Searched {
  const text = typed(typedText)
  const isNamed = ['at://', 'did:'].some((start) => text.startsWith(start)) || HANDLE.test(text)
  if (isNamed) return { ...parseNamed(text), text: null }
  if (text.startsWith('key:')) return { repo: null, rkey: text.slice('key:'.length).trim() || null, text: null }
  if (TID.test(text)) return { repo: null, rkey: text, text: null }
  return { repo: null, rkey: null, text: /^".+"$/.test(text) ? text.slice(1, -1) : text || null }
}

/** The text that `parseSearch` reads. */
export function searchText(collection: string, { repo = '', rkey = '', text = '' }): string {
  if (text) return parseSearch(text).text === text ? text : `"${text}"`
  return repo || TID.test(rkey) || !rkey ? namedText(collection, repo, rkey) : `key:${rkey}`
}
