import type { DryRunEvent } from '../api/models/scripts'

/** The parts of a trigger: `record.index:com.example.note` is of the kind `record.index`, about `com.example.note`. */
export interface Trigger {
  kind: string
  subject: string
}

export function parseTrigger(id: string): Trigger {
  const at = id.indexOf(':')
  return at < 0 ? { kind: id, subject: '' } : { kind: id.slice(0, at), subject: id.slice(at + 1) }
}

/** What starts scripts of a kind. */
export type Source = 'record' | 'label' | 'subscription' | 'query' | 'procedure' | 'job' | 'setup'

export function sourceOf(kind: string): Source {
  if (kind === 'labeler.apply') return 'label'
  if (kind === 'xrpc.query' || kind === 'xrpc.view') return 'query'
  if (kind === 'xrpc.procedure') return 'procedure'
  if (kind === 'xrpc.subscription') return 'subscription'
  if (kind === 'setup') return 'setup'
  return kind === 'job.run' || kind === 'schedule' ? 'job' : 'record'
}

/** What was entered for a dry run. Texts that are empty are left out. */
export interface Trial {
  /** Of records and labels: an event of its own, or that of a dead letter. */
  from: 'event' | 'dead_letter'
  deadLetter: string
  uri: string
  action: '' | 'create' | 'update' | 'delete'
  /** JSON, of a record, a procedure's or a job's input. */
  input: string
  /** One `name=value` a line; a name that is repeated is a list. */
  params: string
  caller: string
  src: string
  val: string
  neg: boolean
}

export const emptyTrial: Trial = {
  from: 'event',
  deadLetter: '',
  uri: '',
  action: '',
  input: '',
  params: '',
  caller: '',
  src: '',
  val: '',
  neg: false,
}

/** The event of a dry run, as the server takes it. Throws a `SyntaxError` for text that is not JSON. */
export function eventOf(source: Source, trial: Trial): DryRunEvent {
  const input = trial.input.trim() ? (JSON.parse(trial.input) as unknown) : undefined
  const caller = trial.caller.trim() || undefined
  const takesDeadLetters = source === 'record' || source === 'label'
  if (takesDeadLetters && trial.from === 'dead_letter') return { type: 'dead_letter', id: trial.deadLetter.trim() }
  switch (source) {
    case 'record':
      return { type: 'record', uri: trial.uri.trim(), action: trial.action || undefined, record: input }
    case 'subscription': {
      const change = { uri: trial.uri.trim(), action: trial.action || undefined, record: input }
      return { type: 'change', ...change, params: paramsOf(trial.params) }
    }
    case 'label':
      return { type: 'label', src: trial.src.trim(), uri: trial.uri.trim(), val: trial.val.trim(), neg: trial.neg }
    case 'setup':
      return { type: 'setup' }
    case 'job':
      return { type: 'job', input, caller_did: caller }
    default:
      return { type: 'request', params: paramsOf(trial.params), input, caller_did: caller }
  }
}

/** The parameters of a request, from lines of `name=value`. */
export function paramsOf(text: string): Record<string, string | string[]> {
  const params: Record<string, string | string[]> = {}
  for (const line of text.split('\n')) {
    if (!line.trim()) continue
    const at = line.indexOf('=')
    const name = (at < 0 ? line : line.slice(0, at)).trim()
    const value = at < 0 ? '' : line.slice(at + 1).trim()
    const before = params[name]
    params[name] = before === undefined ? value : [before, value].flat()
  }
  return params
}
