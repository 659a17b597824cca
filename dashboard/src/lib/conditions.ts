import { typed } from './typed'
import { isInSpace } from './uri'

/** A condition on a field of a record, as the filter of `db.query` takes it. */
export interface Condition {
  field: string
  op: string
  value: string | number | boolean
}

const CONDITION = /^([\w.[\]]+)\s*(!=|<=|>=|=|<|>|not like\b|like\b|contains\b)\s*(.+)$/i

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
  const [, field = '', word = '', given = ''] = match
  const op = word.toUpperCase()
  const value = scalar(given.trim())
  if (op === 'CONTAINS') return { field, op: 'LIKE', value: `%${String(value).replace(/[\\%_]/g, '\\$&')}%` }
  return { field, op, value: op.endsWith('LIKE') ? String(value) : value }
}

/** A JSON number, truth value or string; anything else is text as it stands. */
function scalar(text: string): string | number | boolean {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
  } catch {
    // It is text.
  }
  return text
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
