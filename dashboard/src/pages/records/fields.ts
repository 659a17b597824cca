import type { RecordField } from '../../api/models'

/** An operator as it is written, with what it says, and the number of values that it takes. */
export interface Operator {
  op: string
  values: 'none' | 'one' | 'two' | 'list'
}

const one = (op: string): Operator => ({ op, values: 'one' })
const EQUAL = [one('='), one('!=')]
const ORDERED = [one('<'), one('<='), one('>'), one('>='), { op: 'between', values: 'two' } as const]
const PRESENT: Operator[] = [
  { op: 'exists', values: 'none' },
  { op: 'missing', values: 'none' },
]
const AMONG: Operator = { op: 'in', values: 'list' }

/** The operators for a field of this type; all for a field that the lexicon does not have. */
export function operatorsOf(field: RecordField | undefined): Operator[] {
  const text = [one('contains'), one('begins with')]
  if (!field) return [...EQUAL, ...text, ...ORDERED, AMONG, ...PRESENT]
  if (field.type === 'integer') return [...EQUAL, ...ORDERED, AMONG, ...PRESENT]
  if (field.type === 'boolean') return [...EQUAL, ...PRESENT]
  if (field.type !== 'string') return PRESENT
  if (field.format === 'datetime') return [...ORDERED, ...text, ...PRESENT]
  return [...(field.format || field.values.length > 0 ? [] : text), ...EQUAL, AMONG, ...text, ...PRESENT].filter(
    ({ op }, at, all) => all.findIndex((other) => other.op === op) === at,
  )
}

/** What was typed for a field of this type. Null for what is no value of it. */
export function valueOf(typed: string, field: RecordField | undefined): string | number | boolean | null {
  const text = typed.trim()
  if (text === '') return null
  if (field?.type === 'boolean') return text === 'true' ? true : text === 'false' ? false : null
  if (field?.type === 'string') return typed
  const number = Number(text)
  if (field?.type === 'integer') return Number.isSafeInteger(number) ? number : null
  return Number.isFinite(number) ? number : text
}

/** Whether conditions can name it. */
export const isPath = (text: string) => /^\w+(\[\d+\])*(\.\w+(\[\d+\])*)*$/.test(text)

/** The value of a record at a path. */
export function at(record: unknown, path: string): unknown {
  let value = record
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null) return undefined
    value = (value as Record<string, unknown>)[name]
  }
  return value
}
