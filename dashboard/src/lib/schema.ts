/** Lexicons as a schema: their fields with types, and the references between them. Documents come from outside. */

/** A field of a record, of parameters, of a body or of a definition. */
export interface SchemaField {
  name: string
  type: string
  isRequired: boolean
  /** The definitions that it refers to, as `nsid` or `nsid#name`. */
  targets: string[]
  /** Whether it names a record: an AT URI or a strong reference. Of which collection, a lexicon does not say. */
  isLink: boolean
}

export interface SchemaGroup {
  /** `record`, `parameters`, `input`, `output`, `message`, or `#name` of a definition. */
  name: string
  fields: SchemaField[]
}

export interface SchemaLexicon {
  id: string
  kind: string
  description: string
  groups: SchemaGroup[]
}

export interface Reference {
  from: string
  /** The NSID of the lexicon that is referred to. */
  to: string
  /** Where: the group and the field. */
  at: string
  /**
   * `target`: the collection of a method without a script, which is set beside its lexicon. `link`: the collection of records
   * that stored records name.
   */
  kind: 'ref' | 'union' | 'target' | 'link'
}

export interface SchemaGraph {
  lexicons: Map<string, SchemaLexicon>
  references: Reference[]
}

/** A lexicon as the server lists it. */
export interface StoredLexicon {
  id: string
  lexicon_type: string
  target_collection: string | null
  lexicon_json?: unknown
}

/** Levels of objects within objects that are followed. */
const MAX_DEPTH = 8

const STRONG_REF = 'com.atproto.repo.strongRef'

type Json = Record<string, unknown>
const objectOf = (value: unknown): Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {}
const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')
const listOf = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === 'string') : []

/** The NSID of a reference. */
export const nsidOf = (reference: string): string => reference.split('#', 1)[0] ?? ''

/** All segments of an NSID but the last. */
export const namespaceOf = (nsid: string): string => nsid.split('.').slice(0, -1).join('.')

export function graphOf(stored: StoredLexicon[]): SchemaGraph {
  const lexicons = new Map(stored.map((one) => [one.id, lexiconOf(one)]))
  const references = stored.flatMap((one) => [
    ...referencesOf(one.id, lexicons.get(one.id)?.groups ?? []),
    ...(one.target_collection
      ? [{ from: one.id, to: one.target_collection, at: 'target_collection', kind: 'target' as const }]
      : []),
  ])
  return { lexicons, references }
}

function lexiconOf({ id, lexicon_type: kind, lexicon_json: document }: StoredLexicon): SchemaLexicon {
  const { main, ...others } = objectOf(objectOf(document).defs)
  const groups = [
    ...mainGroups(id, objectOf(main)),
    ...Object.entries(others).map(([name, def]) => groupOf(`#${name}`, def, id)),
  ]
  const description = textOf(objectOf(main).description) || textOf(objectOf(document).description)
  return { id, kind, description, groups }
}

function mainGroups(id: string, main: Json): SchemaGroup[] {
  if (main.type === 'record') return [groupOf('record', main.record, id)]
  if (!['query', 'procedure', 'subscription'].includes(textOf(main.type)))
    return main.type === undefined ? [] : [groupOf('main', main, id)]
  const schemaOf = (name: string) => objectOf(main[name]).schema
  const parts: [string, unknown][] = [
    ['parameters', main.parameters],
    ['input', schemaOf('input')],
    ['output', schemaOf('output')],
    ['message', schemaOf('message')],
  ]
  return parts.filter(([, schema]) => schema !== undefined).map(([name, schema]) => groupOf(name, schema, id))
}

/** A definition that is no object is a group of one field without a name. */
function groupOf(name: string, definition: unknown, id: string): SchemaGroup {
  const schema = objectOf(definition)
  const isObject = schema.type === 'object' || schema.type === 'params'
  return { name, fields: isObject ? fieldsOf(schema, id, '', 0) : [fieldOf('', schema, true, id)] }
}

function fieldsOf(schema: Json, id: string, before: string, depth: number): SchemaField[] {
  const required = new Set(listOf(schema.required))
  return Object.entries(objectOf(schema.properties)).flatMap(([name, value]) => {
    const inner = objectOf(value)
    const items = objectOf(inner.items)
    const field = fieldOf(before + name, inner, required.has(name), id)
    const nested = inner.type === 'object' ? inner : items.type === 'object' ? items : null
    const more = nested && depth < MAX_DEPTH ? fieldsOf(nested, id, `${before}${name}.`, depth + 1) : []
    return [field, ...more]
  })
}

function fieldOf(name: string, schema: Json, isRequired: boolean, id: string): SchemaField {
  const isList = schema.type === 'array'
  const one = isList ? objectOf(schema.items) : schema
  const targets = (one.type === 'ref' ? [textOf(one.ref)] : one.type === 'union' ? listOf(one.refs) : [])
    .filter(Boolean)
    .map((target) => absolute(target, id))
  return {
    name,
    type: typeOf(one, targets) + (isList ? '[]' : ''),
    isRequired,
    targets,
    isLink: one.format === 'at-uri' || targets.some((target) => nsidOf(target) === STRONG_REF),
  }
}

function typeOf(schema: Json, targets: string[]): string {
  if (schema.type === 'union') return 'union'
  if (schema.type === 'ref') return shortOf(targets[0] ?? '')
  return textOf(schema.format) || textOf(schema.type) || 'unknown'
}

/** The name of a definition by its last part: `#image` of `com.example.embed#image`, `note` of `com.example.note`. */
export function shortOf(reference: string): string {
  const [nsid = '', name] = reference.split('#', 2)
  const last = nsid.split('.').at(-1) ?? nsid
  return name === undefined || name === 'main' ? last : `${last}#${name}`
}

function absolute(reference: string, id: string): string {
  const plain = reference.replace(/^lex:/, '')
  return plain.startsWith('#') ? id + plain : plain
}

/** References to other lexicons. Those within a lexicon are a part of it. */
function referencesOf(from: string, groups: SchemaGroup[]): Reference[] {
  return groups.flatMap(({ name: group, fields }) =>
    fields.flatMap(({ name, type, targets }) =>
      [...new Set(targets.map(nsidOf))]
        .filter((to) => to !== from)
        .map((to) => ({
          from,
          to,
          at: name ? `${group}.${name}` : group,
          kind: type.startsWith('union') ? ('union' as const) : ('ref' as const),
        })),
    ),
  )
}

/** The collections of the records that some records of a collection name, by the field that names them. */
export function linksIn(collection: string, records: unknown[]): Reference[] {
  const found = new Map<string, Reference>()
  const walk = (value: unknown, at: string, depth: number) => {
    if (typeof value === 'string') {
      const to = /^at:\/\/[^/?#]+\/([a-z][\w-]*(?:\.[\w-]+){2,})\//i.exec(value)?.[1]
      if (to !== undefined) found.set(`${at} ${to}`, { from: collection, to, at, kind: 'link' })
    } else if (typeof value === 'object' && value !== null && depth < MAX_DEPTH) {
      const isList = Array.isArray(value)
      for (const [name, inner] of Object.entries(value)) walk(inner, isList ? at : `${at}.${name}`, depth + 1)
    }
  }
  for (const record of records) walk(record, 'record', 0)
  return [...found.values()]
}
