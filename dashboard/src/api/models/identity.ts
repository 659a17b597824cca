/** The instance's own identity, its domains and services, and settings. */

export interface Domain {
  id: string
  url: string
  is_primary: boolean
  created_at: string
  updated_at: string
}

export type Mode = 'did_web' | 'did_plc' | 'attach_account' | 'not_exposed'

export interface ServiceIdentity {
  mode: string
  did: string | null
  attached_account_did: string | null
  setup_complete: boolean
  created_at: string
  updated_at: string
}

export interface SetupStatus {
  identity_mode: string | null
  identity_configured: boolean
  plc_verified: boolean | null
  setup_complete: boolean
}

export interface Account {
  did: string
  handle: string | null
  display_name: string | null
  avatar: string | null
}

export interface VerificationMethod {
  id: string
  fragment_id: string
  key_type: string
  public_key_multibase: string
  created_at: string
}

export type AccessMode = 'all' | 'allowlist' | 'disabled'

export interface ServiceEntry {
  id: number
  fragment_id: string
  service_type: string
  access_mode: string
  created_at: string
  updated_at: string
}

export interface Setting {
  key: string
  value: string
  source: 'database' | 'env'
}

export interface ForwardingRules {
  mode: 'open' | 'disabled' | 'allowlist' | 'blocklist'
  nsids: string[]
  routing: 'authority' | 'serviceproxy'
}

export interface FeatureFlag {
  key: string
  name: string
  description: string
  enabled: boolean
}
