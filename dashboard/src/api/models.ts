/** What the server answers. The names of fields are those of the admin API. */

export interface Config {
  public_url: string
  version: string
  database_backend: string
  jetstream_url: string | null
  relay_url: string
  plc_url: string
  default_rate_limit_capacity: number
  default_rate_limit_refill_rate: number
  app_name: string | null
  logo_url: string | null
  features: { spaces: boolean }
  /** False while no user exists: the first who logs in becomes the super user. */
  has_users?: boolean
}

export interface Me {
  did: string
  is_admin: boolean
  handle?: string | null
  user_id?: string | null
  is_super?: boolean
  permissions?: string[]
}

export interface Lexicon {
  id: string
  revision: number
  /** Only of a single lexicon. */
  lexicon_json?: LexiconDocument
  lexicon_type: string
  backfill: boolean
  action: string | null
  target_collection: string | null
  source: string
  authority_did: string | null
  last_fetched_at: string | null
  created_at: string
  updated_at: string
  token_cost: number | null
  warnings?: string[]
}

/** A lexicon's document. It comes from outside: everything but its shape is unknown. */
export interface LexiconDocument {
  id?: unknown
  defs?: Record<string, { type?: unknown } | undefined>
  [key: string]: unknown
}

export interface LexiconUpload {
  lexicon_json: unknown
  backfill?: boolean
  target_collection?: string
  token_cost?: number
  action?: string
}

export interface LexiconSaved {
  id: string
  revision: number
  backfill_job_id: string | null
  warnings?: string[]
}

export interface LexiconPreview {
  id: string | null
  lexicon_type: string | null
  change: 'new' | 'changed' | 'unchanged' | 'invalid'
  revision: number | null
  next_revision: number | null
  error: string | null
  source: string | null
  differences: { path: string; before?: unknown; after?: unknown }[]
  differences_left_out: number | null
  records: {
    total: number
    checked: number
    become_invalid: number
    become_valid: number
    examples: { uri: string; reason: string }[]
  } | null
  starts_backfill: boolean | null
  warnings: string[]
}

export interface LexiconRevision {
  revision: number
  saved_at: string
  saved_by: string | null
  source: string
  bytes: number
  lexicon_json?: unknown
}

export interface NetworkLexicon {
  nsid: string
  authority_did: string | null
  target_collection: string | null
  last_fetched_at: string | null
  created_at: string
}

/** A lexicon that the network has now. */
export interface ResolvedLexicon {
  nsid: string
  authority_did: string
  type: string | null
  lexicon_json: LexiconDocument
}

export interface ServiceEntry {
  id: number
  fragment_id: string
  service_type: string
  access_mode: string
  created_at: string
  updated_at: string
}

export interface IndexedRecord {
  uri: string
  did: string
  collection: string
  rkey: string
  cid: string | null
  indexed_at: string
  updated_at: string
  valid: boolean
  invalid_reason: string | null
  record: Record<string, unknown>
  labels: { src: string; val: string; cts: string }[]
}

export interface Why {
  uri: string
  verdict: string
  is_visible: boolean
  summary: string
  advice: string | null
  steps: {
    id: string
    outcome: 'ok' | 'problem' | 'unknown' | 'info'
    text: string
    link?: { kind: string; id: string } | null
  }[]
}

export interface Stats {
  total_records: number
  collections: { collection: string; count: number; invalid: number }[]
}

export interface LogEvent {
  id: string
  event_type: string
  severity: 'info' | 'warn' | 'error'
  actor_did: string | null
  subject: string | null
  detail: unknown
  created_at: string
}

export interface Overview {
  version: string
  started_at: string
  records: { total: number; invalid: number; collections: number }
  stream: {
    state: string
    reason: string | null
    is_here: boolean
    cursor: string | null
    lag_seconds: number | null
    last_event_at: string | null
    events_per_second: number | null
    servers: string[]
  }
  gaps: { reason: string; from: string; to: string; job_id: string | null }[]
  requests: { per_second: number | null; errors_per_second: number | null; mean_ms: number | null }
  backfills: OverviewBackfill[] | null
  jobs: { pending: number; running: number; paused: number; failed: number } | null
  dead_letters: number | null
  labelers: { active: number; connected: number } | null
  errors: LogEvent[] | null
}

export interface OverviewBackfill {
  id: string
  kind: string
  collection: string | null
  did: string | null
  status: string
  stage: string | null
  processed_repos: number | null
  total_repos: number | null
  total_records: number | null
  started_at: string | null
}

export interface Checks {
  ok: boolean
  checked_at: string
  checks: { id: string; name: string; ok: boolean; detail: string }[]
}

export interface MetricHistory {
  metric: string
  unit: string
  by: string | null
  step: number
  times: number[]
  series: { label: string; name: string | null; is_other?: boolean; total: number; values: (number | null)[] }[]
}

export interface OwnSession {
  id: string
  kind: 'app' | 'browser' | 'linked_repo' | 'service'
  name: string | null
  client_uri: string | null
  client_id: string | null
  scopes: string[]
  pds: string
  created_at: string
  last_used_at: string | null
  expires_at: string | null
  is_current: boolean
}

export interface LinkedAccount {
  plugin_id: string
  account_id: string
  display_name: string | null
  profile_url: string | null
  status: string
  collections: string[]
  expires_at: string | null
  created_at: string
  synced_at: string | null
  sync: {
    status: string | null
    processed: number | null
    written: number | null
    skipped: number | null
    error: { error: string; message: string } | null
  }
}

/** A plugin that links accounts of another service. */
export interface Provider {
  id: string
  name: string
  icon_url: string | null
  auth_type: string
  config_schema?: unknown
}

/** A key that is shown once. */
export interface NewApiKey {
  id: string
  name: string
  key: string
  permissions: string[]
}

export interface NewApiClient {
  id: string
  client_key: string
  client_secret?: string
  name: string
}
