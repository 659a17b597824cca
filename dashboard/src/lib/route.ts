/** A place in the dashboard, as the part of the URL behind `#` says it: `/records?collection=com.example.note`. */
export interface Place {
  path: string
  query: Record<string, string>
}

/** Reads a place from `location.hash`. What can't be decoded is taken as it is. */
export function parsePlace(hash: string): Place {
  const text = hash.replace(/^#/, '')
  const cut = text.indexOf('?')
  const path = '/' + (cut < 0 ? text : text.slice(0, cut)).replace(/^\/+|\/+$/g, '')
  const query: Record<string, string> = {}
  if (cut >= 0) for (const [key, value] of new URLSearchParams(text.slice(cut + 1))) query[key] = value
  return { path, query }
}

/** The value of `href` that leads to a place. Parameters without a value are left out. */
export function href(path: string, query: Record<string, string | number | boolean | null | undefined> = {}): string {
  const params = new URLSearchParams()
  for (const [key, value] of Object.entries(query)) {
    if (value !== '' && value !== null && value !== undefined && value !== false) params.set(key, String(value))
  }
  const text = params.toString()
  return `#${path}${text ? `?${text}` : ''}`
}

/** A path with its parameters filled in: `pathOf('/lexicons/:id', { id })`. */
export function pathOf(pattern: string, params: Record<string, string>): string {
  return pattern.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(params[name] ?? ''))
}

/** The parameters of a path that matches the pattern, such as `/lexicons/:id`; null when it does not match. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const [expected, actual] = [pattern.split('/'), path.split('/')]
  if (expected.length !== actual.length) return null
  const params: Record<string, string> = {}
  for (const [at, part] of expected.entries()) {
    const text = actual[at] ?? ''
    if (!part.startsWith(':')) {
      if (part !== text) return null
    } else {
      if (text === '') return null
      params[part.slice(1)] = decoded(text)
    }
  }
  return params
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
