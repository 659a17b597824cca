/** Backfills, jobs, dead letters, labelers and the database. */

export interface Backfill {
  id: string
  /** backfill, catch_up or repair. */
  kind: string
  collection: string | null
  did: string | null
  /** running, pausing, paused, cancelling, cancelled, completed or failed. */
  status: string
  stage: string
  total_repos: number | null
  resolved_repos: number | null
  processed_repos: number | null
  total_records: number | null
  bytes_fetched: number
  bytes_kept: number
  sources: {
    pages: { requests: number; bytes: number }
    car: { requests: number; bytes: number; repos: number }
  }
  error: string | null
  started_at: string | null
  completed_at: string | null
  created_at: string
}

export interface BackfillPlan {
  collections: string[]
  repos: number
  repos_at_least: boolean
  sampled: number
  unreachable: number
  records: number
  requests: number
  bytes: number
  seconds: number
  sources: Record<'pages' | 'car', { repos: number; requests: number; bytes: number }>
}

export interface BackfillHost {
  pds_endpoint: string
  total_repos: number
  completed_repos: number
  total_records: number
}

export interface BackfillFailure {
  did: string
  pds_endpoint: string | null
  kind: string | null
  error: string | null
  retryable: boolean
}

export interface BackfillFailures {
  errors: BackfillFailure[]
  /** Of all failed repos, by kind. */
  counts: Record<string, number>
  cursor: string | null
}

export interface Job {
  id: string
  job_type: string
  status: string
  input: unknown
  progress: unknown
  result: unknown
  error: string | null
  created_by: string
  inherit_auth: boolean
  started_at: string | null
  completed_at: string | null
  created_at: string
}

export interface DeadLetter {
  id: string
  lexicon_id: string
  uri: string
  did: string
  collection: string
  rkey: string
  /** create, update, delete or label. */
  action: string
  error: string
  attempts: number
  created_at: string
  resolved_at?: string
  /** Only in the answer about one. */
  script?: string
  record?: unknown
}

export interface BulkAnswer {
  ok: boolean
  results: { id: string; ok: boolean; error?: string }[]
  remaining: number
}

export interface Labeler {
  did: string
  status: 'active' | 'paused'
  cursor: number | null
  connected: boolean
  last_error: string | null
  last_error_at: string | null
  created_at: string
  updated_at: string
}

export interface FieldIndex {
  collection: string
  field: string
  kind: string
  /** candidate (advised, not made), building, ready or failed. */
  state: string
  calls: number
  scans: number
  scan_ms: number
  last_used_at: string
  built_at: string | null
  build_ms: number | null
  error: string | null
}

export interface DatabaseSize {
  backend: string
  size_bytes: number
  tables: { name: string; rows: number | null; bytes: number | null; index_bytes: number | null }[]
}

export interface DatabaseInfo {
  backend: string
  server_max_connections: number | null
  main_pool_size: number
  restart_recommended: boolean
}
