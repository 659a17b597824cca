/** Scripts: what they are, how they are checked and tried, and what they cost. */
import type { Get, Schema } from '../models'

export type Script = Schema<'Script'>
export type ScriptStats = Schema<'ScriptStats'>
export type ScriptVariable = Get<'/admin/script-variables'>[number]

export interface ScriptDiagnostic {
  severity: 'error' | 'warning'
  kind: string
  /** Counted from 1; null when the error has no line. */
  line: number | null
  column: number | null
  end_line?: number | null
  end_column?: number | null
  message: string
}

export interface ScriptCheck {
  ok: boolean
  diagnostics: ScriptDiagnostic[]
  outbound_xrpcs: string[]
}

export interface ScriptSymbol {
  name: string
  kind: 'function' | 'table' | 'global'
  signature: string
  help: string | null
}

export interface TriggerKind {
  kind: string
  subject: 'nsid' | 'nsid_or_actor' | 'job_type'
  help: string
  globals: string[]
  template: string
}

export interface ScriptTypes {
  annotations: string
  symbols: ScriptSymbol[]
  triggers: TriggerKind[]
  variables: string[]
}

export interface DryRunUsage {
  instructions: number | null
  instructions_limit: number | null
  fuel: number
  fuel_limit: number
  cpu_ms: number
  duration_ms: number
  host_calls: number
}

export interface DryRun {
  ok: boolean
  result: ({ type: string } & Record<string, unknown>) | null
  event: unknown
  logs: { level: string; message: string }[]
  writes: ({ kind: string } & Record<string, unknown>)[]
  refused: string[]
  usage: DryRunUsage
  error: { kind: string; message: string; line: number | null; traceback?: string | null } | null
  notes: string[]
}

export interface Revision {
  revision: number
  saved_at: string
  saved_by: string | null
  kind: 'saved' | 'deleted'
  description: string | null
  bytes: number
  /** Only in the answer about one revision. */
  body?: string | null
}

export interface DeletedScript {
  id: string
  revision: number
  deleted_at: string
  deleted_by: string | null
}
