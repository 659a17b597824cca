import type { InstanceExport } from '../api/models/operations'

/** A lexicon, script, view or setting that is not the same in both instances. */
export interface Difference {
  kind: 'lexicon' | 'script' | 'view' | 'setting'
  id: string
  /** `file`, `here`: only there. */
  state: 'file' | 'here' | 'different'
  /** Its text in the file, and on this instance. Empty where it is not. */
  file: string
  here: string
}

export interface Comparison {
  differences: Difference[]
  /** Parts that are the same. */
  equal: number
}

/** The version of the document that this page reads. */
const FORMAT = 1

/** An export from a file; null for a file that is none. */
export function exportOf(text: string): InstanceExport | null {
  try {
    const found = JSON.parse(text) as Partial<InstanceExport> | null
    const { format, lexicons, scripts, settings } = found ?? {}
    const isRead =
      format === FORMAT && Array.isArray(lexicons) && Array.isArray(scripts) && typeof settings === 'object'
    return isRead && settings !== null ? (found as InstanceExport) : null
  } catch {
    return null
  }
}

export function compare(file: InstanceExport, here: InstanceExport): Comparison {
  const [before, after] = [partsOf(file), partsOf(here)]
  const differences: Difference[] = []
  let equal = 0
  for (const key of [...new Set([...before.keys(), ...after.keys()])].toSorted()) {
    const [old, now] = [before.get(key), after.get(key)]
    const { kind, id } = old ?? now ?? { kind: 'setting' as const, id: key }
    if (old?.text === now?.text) equal += 1
    else {
      const state = old === undefined ? 'here' : now === undefined ? 'file' : 'different'
      differences.push({ kind, id, state, file: old?.text ?? '', here: now?.text ?? '' })
    }
  }
  return { differences, equal }
}

interface Part {
  kind: Difference['kind']
  id: string
  text: string
}

function partsOf({ lexicons, scripts, settings }: InstanceExport): Map<string, Part> {
  const parts: Part[] = [
    ...lexicons.map(({ id, ...lexicon }) => ({ kind: 'lexicon' as const, id, text: jsonOf(lexicon) })),
    ...scripts.map(({ id, description, body }) => ({
      kind: id.startsWith('xrpc.view:') ? ('view' as const) : ('script' as const),
      id,
      text: description ? `${description}\n\n${body}` : body,
    })),
    ...Object.entries(settings).map(([id, value]) => ({ kind: 'setting' as const, id, text: value })),
  ]
  return new Map(parts.map((part) => [`${part.kind} ${part.id}`, part]))
}

/** JSON with the names in one order: theirs means nothing. */
function jsonOf(value: unknown): string {
  const sorted = (one: unknown): unknown => {
    if (Array.isArray(one)) return one.map(sorted)
    if (typeof one !== 'object' || one === null) return one
    const entries = Object.entries(one).toSorted(([a], [b]) => (a < b ? -1 : 1))
    return Object.fromEntries(entries.map(([name, inner]) => [name, sorted(inner)]))
  }
  return JSON.stringify(sorted(value), null, 2)
}
