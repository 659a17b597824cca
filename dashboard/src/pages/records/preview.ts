/** Characters of the preview: more than two lines of a table show. */
const MAX_LENGTH = 240

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
