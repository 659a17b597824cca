/** Users, keys, API clients and linked repos. The names are those of the API's description. */

export interface ApiKey {
  id: string
  name: string
  key_prefix: string
  permissions: string[]
  created_at: string
  last_used_at: string | null
  revoked_at: string | null
}

export interface User {
  id: string
  did: string
  is_super: boolean
  permissions: string[]
  created_at: string
  last_used_at: string | null
}

export interface Permission {
  key: string
  name: string
  description: string
  category: string
}

export interface Catalogue {
  permissions: Permission[]
  templates: { key: string; label: string; permissions: string[] }[]
}

export interface ApiClient {
  id: string
  client_key: string
  name: string
  client_id_url: string
  client_uri: string
  redirect_uris: string[]
  scopes: string
  client_type: string
  allowed_origins: string[]
  rate_limit_capacity: number | null
  rate_limit_refill_rate: number | null
  is_active: boolean
  created_by: string
  parent_client_id: string | null
  owner_did: string | null
  created_at: string
  updated_at: string
}

export interface NewApiClient {
  id: string
  client_key: string
  /** Of a confidential client. */
  client_secret?: string
}

export interface ClientKey {
  kid: string
  jwks_uri: string
  /** Null when the client's metadata can't be read now. */
  confidential: boolean | null
}

export interface KeyUse {
  kid: string
  status: string
  created_at: string
  session_count: number
}

export interface LinkedRepo {
  id: string
  did: string | null
  handle: string | null
  reason: string | null
  scopes: string
  scripts: string[]
  /** pending, active or needs_reauth. */
  status: string
  last_error: string | null
  last_refreshed_at: string | null
  authorized_at: string | null
  created_by: string
  created_at: string
}

export interface Invite {
  invite_id: string
  expires_at: string
}
