/** A value as text, with the names of fields in order, so that two values can be compared line by line. */
export function ordered(value: unknown): string {
  const sort = (_: string, part: unknown): unknown =>
    part !== null && typeof part === 'object' && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part
  return JSON.stringify(value, sort, 2) ?? ''
}

export type Token = { kind: 'key' | 'string' | 'number' | 'word' | 'plain'; text: string }

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g

/** The parts of a JSON text, to colour them. Joined they are the text again. */
export function tokens(text: string): Token[] {
  const found: Token[] = []
  let end = 0
  for (const match of text.matchAll(TOKEN)) {
    if (match.index > end) found.push({ kind: 'plain', text: text.slice(end, match.index) })
    const [whole, string, colon, number] = match
    if (string === undefined) found.push({ kind: number === undefined ? 'word' : 'number', text: whole })
    else {
      found.push({ kind: colon === undefined ? 'string' : 'key', text: string })
      if (colon !== undefined) found.push({ kind: 'plain', text: colon })
    }
    end = match.index + whole.length
  }
  if (end < text.length) found.push({ kind: 'plain', text: text.slice(end) })
  return found
}

/** Why a text is not JSON, in the browser's words; null if it is. */
export function jsonProblem(text: string): string | null {
  try {
    JSON.parse(text)
    return null
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
