/** Characters of the preview: more than two lines of a table show. */
const MAX_LENGTH = 240

/** Characters of the value of a field. */
const MAX_CELL = 100

/** The values of a record in one line, without its type and its times, which say little. */
export function preview(record: unknown): string {
  if (typeof record !== 'object' || record === null) return ''
  const parts: string[] = []
  for (const [key, value] of Object.entries(record)) {
    if (key === '$type' || key === 'createdAt' || value === null || value === undefined) continue
    parts.push(`${key}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    if (parts.join(' · ').length > MAX_LENGTH) break
  }
  const text = parts.join(' · ').replace(/\s+/g, ' ')
  return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text
}

/** The value of a field in a cell. */
export function short(value: unknown): string {
  if (value === null || value === undefined) return ''
  const text = (typeof value === 'string' ? value : JSON.stringify(value)).replace(/\s+/g, ' ')
  return text.length > MAX_CELL ? `${text.slice(0, MAX_CELL)}…` : text
}
