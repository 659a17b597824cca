/** Calls of a query by what its lexicon says: the fields of its parameters, its address, and code that calls it. */

/** A parameter of a method. */
export interface Parameter {
  name: string
  type: 'string' | 'integer' | 'boolean'
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
  description?: unknown
  default?: unknown
  enum?: unknown
  knownValues?: unknown
  items?: Schema
  minimum?: unknown
  maximum?: unknown
}

interface Document {
  id?: unknown
  defs?: { main?: { type?: unknown; parameters?: { required?: unknown; properties?: Record<string, Schema> } } }
}

/** The parameters of a lexicon's method, required ones first. */
export function parametersOf(document: unknown): Parameter[] {
  const { required, properties = {} } = (document as Document | null)?.defs?.main?.parameters ?? {}
  const needed = new Set(listOf(required))
  const all = Object.entries(properties).map(([name, schema]): Parameter => {
    const isList = schema.type === 'array'
    const one = isList ? (schema.items ?? {}) : schema
    const range = [schema.minimum, schema.maximum].some((end) => typeof end === 'number')
    return {
      name,
      type: one.type === 'integer' || one.type === 'boolean' ? one.type : 'string',
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

/** A call on the command line. */
export function curlOf(url: string, clientKey: string): string {
  const quoted = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`
  return ['curl', ...(clientKey ? ['-H', quoted(`x-client-key: ${clientKey}`)] : []), quoted(url)].join(' ')
}

/** A call in TypeScript. */
export function typescriptOf(url: string, clientKey: string): string {
  const headers = clientKey ? `, {\n  headers: { 'x-client-key': ${JSON.stringify(clientKey)} },\n}` : ''
  return [
    `const response = await fetch(${JSON.stringify(url)}${headers})`,
    'const body = await response.json()',
    'if (!response.ok) throw new Error(body.message ?? body.error)',
  ].join('\n')
}
