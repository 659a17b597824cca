/** Calls of a method by what its lexicon says: the fields of its parameters and its input, its address, and code that calls it. */

/** A field of a method's parameters or input. */
export interface Parameter {
  name: string
  /** `json`: of a shape that has no field of its own. */
  type: 'string' | 'integer' | 'boolean' | 'json'
  isList: boolean
  isRequired: boolean
  /** What the lexicon proposes. */
  values: string[]
  /** The default, as it is typed. */
  standard: string
  hint: string
}

/** What was typed for each parameter: several values for a list. */
export type Values = Record<string, string[]>

interface Schema {
  type?: unknown
  ref?: unknown
  description?: unknown
  default?: unknown
  enum?: unknown
  knownValues?: unknown
  items?: Schema
  minimum?: unknown
  maximum?: unknown
}

interface Fields {
  required?: unknown
  properties?: Record<string, Schema>
}

interface Document {
  defs?: Record<string, (Schema & Fields) | undefined> & {
    main?: { type?: unknown; parameters?: Fields; input?: { encoding?: unknown; schema?: Schema & Fields } }
  }
}

const SHAPES = ['object', 'ref', 'union', 'unknown', 'blob', 'bytes', 'cid-link', 'array']

/** The parameters of a lexicon's method, required ones first. */
export function parametersOf(document: unknown): Parameter[] {
  return fieldsOf((document as Document | null)?.defs?.main?.parameters)
}

/** What a procedure takes: JSON with these fields, which are none if the lexicon does not say; another encoding; or nothing. */
export interface Input {
  encoding: string
  fields: Parameter[]
}

/** The input of a lexicon's method; null if it takes none. */
export function inputOf(document: unknown): Input | null {
  const { main, ...defs } = (document as Document | null)?.defs ?? {}
  if (!main?.input) return null
  const { encoding, schema } = main.input
  const local = typeof schema?.ref === 'string' ? /^#(.+)$/.exec(schema.ref)?.[1] : undefined
  const fields = local === undefined ? schema : defs[local]
  return { encoding: typeof encoding === 'string' ? encoding : 'application/json', fields: fieldsOf(fields) }
}

function fieldsOf({ required, properties = {} }: Fields = {}): Parameter[] {
  const needed = new Set(listOf(required))
  const all = Object.entries(properties).map(([name, schema]): Parameter => {
    const items = schema.type === 'array' ? schema.items : undefined
    const isJson = SHAPES.includes(String((items ?? schema).type))
    const isList = schema.type === 'array' && !isJson
    const one = isList ? (schema.items ?? {}) : schema
    const range = [schema.minimum, schema.maximum].some((end) => typeof end === 'number')
    return {
      name,
      type: isJson ? 'json' : one.type === 'integer' || one.type === 'boolean' ? one.type : 'string',
      isList,
      isRequired: needed.has(name),
      values: [...new Set([...listOf(one.enum), ...listOf(one.knownValues)])],
      standard: schema.default === undefined ? '' : String(schema.default),
      hint: [
        typeof schema.description === 'string' ? schema.description : '',
        range ? `${numberOf(schema.minimum)}–${numberOf(schema.maximum)}` : '',
      ]
        .filter(Boolean)
        .join(' '),
    }
  })
  return all.toSorted((a, b) => Number(b.isRequired) - Number(a.isRequired))
}

const listOf = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : [])
const numberOf = (value: unknown): string => (typeof value === 'number' ? String(value) : '')

/** The address of a call, below the server's root, without blanks around values. Parameters without a value are left out. */
export function callPathOf(nsid: string, values: Values): string {
  const query = new URLSearchParams()
  for (const [name, list] of Object.entries(values))
    for (const value of list) if (value.trim()) query.append(name, value.trim())
  const text = query.toString()
  return `/xrpc/${nsid}${text ? `?${text}` : ''}`
}

/** The input of a call, from what was typed. Fields without a value are left out. Throws a `SyntaxError` for text that is not JSON. */
export function bodyOf(fields: Parameter[], values: Values): Record<string, unknown> {
  const parsed = ({ type }: Parameter, text: string): unknown => {
    if (type === 'json') return JSON.parse(text)
    if (type === 'integer' && /^-?\d+$/.test(text)) return Number(text)
    return type === 'boolean' ? text === 'true' : text
  }
  const body: Record<string, unknown> = {}
  for (const field of fields) {
    // Blanks at the ends of a text are a part of it.
    const trim = (text: string) => (field.type === 'string' && !field.isList ? text : text.trim())
    const typed = (values[field.name] ?? []).map(trim).filter(Boolean)
    if (typed.length === 0) continue
    const found = typed.map((text) => parsed(field, text))
    body[field.name] = field.isList ? found : found[0]
  }
  return body
}

/** What would have been typed for an input; null for one that has values that the fields can't show. */
export function valuesOf(fields: Parameter[], body: unknown): Values | null {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return null
  const values: Values = {}
  for (const [name, value] of Object.entries(body)) {
    const field = fields.find((one) => one.name === name)
    if (!field || field.isList !== (Array.isArray(value) && field.type !== 'json')) return null
    const text = (one: unknown) =>
      field.type !== 'json' && typeof one === 'string' ? one : JSON.stringify(one, null, 2)
    values[name] = field.isList ? (value as unknown[]).map(text) : [text(value)]
  }
  return values
}

/** A call as an application makes it. */
export interface Request {
  url: string
  /** Empty for none. */
  clientKey: string
  /** JSON of the input of a procedure, empty for none; undefined for a query. */
  body?: string | undefined
}

/** A call on the command line. */
export function curlOf({ url, clientKey, body }: Request): string {
  const quoted = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`
  const header = (text: string) => ['-H', quoted(text)]
  return [
    'curl',
    ...(body === undefined ? [] : ['-X', 'POST']),
    ...(body ? header('content-type: application/json') : []),
    ...(clientKey ? header(`x-client-key: ${clientKey}`) : []),
    ...(body ? ['--data-raw', quoted(body)] : []),
    quoted(url),
  ].join(' ')
}

/** A call in TypeScript. */
export function typescriptOf({ url, clientKey, body }: Request): string {
  const headers = [
    ...(clientKey ? [`'x-client-key': ${JSON.stringify(clientKey)}`] : []),
    ...(body ? [`'content-type': 'application/json'`] : []),
  ]
  const options = [
    ...(body === undefined ? [] : [`  method: 'POST',`]),
    ...(headers.length > 0 ? [`  headers: { ${headers.join(', ')} },`] : []),
    ...(body ? [`  body: JSON.stringify(${body}),`] : []),
  ]
  return [
    `const response = await fetch(${JSON.stringify(url)}${options.length > 0 ? `, {\n${options.join('\n')}\n}` : ''})`,
    'const body = await response.json()',
    'if (!response.ok) throw new Error(body.message ?? body.error)',
  ].join('\n')
}
