export interface ConfigField {
  key: string
  title: string
  description: string
  required: boolean
  isSecret: boolean
}

/** The text fields of a plugin's JSON Schema. The schema comes from outside: what is not text is left out. */
export function fieldsOf(schema: unknown): ConfigField[] {
  const { properties, required } = (schema ?? {}) as { properties?: unknown; required?: unknown }
  if (typeof properties !== 'object' || properties === null) return []
  const needed = Array.isArray(required) ? required : []
  return Object.entries(properties as Record<string, Record<string, unknown> | null>).map(([key, property]) => ({
    key,
    title: text(property?.title) || key,
    description: text(property?.description),
    required: needed.includes(key),
    isSecret: property?.format === 'password' || property?.writeOnly === true || /key|secret|token|password/i.test(key),
  }))
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
