import type { LexiconUpload } from '../../api/models'

/** Bytes of a file: a lexicon may have 1 MiB. */
export const MAX_BYTES = 1_000_000

/** Bytes of all files, which are sent in one request of at most 8 MiB. */
export const MAX_TOTAL_BYTES = 8_000_000

/** Files of one upload: as many as a request may have. */
export const MAX_FILES = 2_000

/** A document of a file or of the editor, or why it is none. */
export interface Draft {
  /** The file's name; empty for the editor's text. */
  file: string
  text: string
  json?: { id: string; type: string }
  problem?: 'syntax' | 'shape' | 'size'
  /** The parser's words about a syntax error. */
  detail?: string
}

/** Reads a lexicon's text so far that a form for it can be shown. The server checks it. */
export function draftOf(file: string, text: string): Draft {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    return { file, text, problem: 'syntax', detail: error instanceof Error ? error.message : '' }
  }
  const { id, defs } = (json ?? {}) as { id?: unknown; defs?: { main?: { type?: unknown } } }
  if (typeof id !== 'string') return { file, text, problem: 'shape' }
  const type = defs?.main?.type
  return { file, text, json: { id, type: typeof type === 'string' ? type : '' } }
}

type Action = NonNullable<LexiconUpload['action']> | ''

const ACTIONS: Action[] = ['create', 'update', 'delete', 'upsert']

/** A stored action as a choice; empty for the default. */
export function actionOf(stored: string | null): Action {
  return ACTIONS.find((action) => action === stored) ?? ''
}

export interface Choices {
  backfill: boolean
  target: string
  action: Action
  cost: string
}

/** The body of an upload: a choice that the lexicon's type does not know is left out. */
export function uploadOf({ text, json }: Draft, choices: Choices): LexiconUpload {
  const type = json?.type
  const body: LexiconUpload = { lexicon_json: JSON.parse(text) as unknown }
  if (type === 'record') body.backfill = choices.backfill
  if (type === 'query' || type === 'procedure') {
    if (choices.target.trim()) body.target_collection = choices.target.trim()
    if (choices.cost.trim()) body.token_cost = Number(choices.cost)
  }
  if (type === 'procedure' && choices.action) body.action = choices.action
  return body
}
