/** Plugins, and the services at which users link accounts. */

export type Risk = 'low' | 'medium' | 'high'

export interface PluginPermission {
  permission: string
  sentence: string
  risk: Risk
  /** Absent as long as nothing was decided. */
  granted?: boolean
}

export interface RequiredSecret {
  key: string
  name: string
  description?: string
}

export interface Release {
  version: string
  name: string | null
  published_at: string | null
  body: string | null
}

export interface Plugin {
  id: string
  name: string
  description: string | null
  icon_url: string | null
  version: string | null
  source: string
  url: string | null
  sha256: string | null
  manifest_sha256: string | null
  /** Whether a reload takes no other module. */
  pinned: boolean
  enabled: boolean
  /** active, loading, failed, paused or removing. */
  status: string
  last_error: string | null
  auth_type: string | null
  required_secrets: RequiredSecret[]
  secrets_configured: boolean
  permissions: PluginPermission[]
  functions: { name: string; params: string[]; help: string | null }[]
  installed_by: string | null
  installed_at: string | null
  loaded_at: string | null
  update_available: boolean
  latest_version?: string
  pending_releases: Release[]
}

export interface PluginPreview {
  id: string
  name: string
  version: string
  description: string | null
  auth_type: string
  required_secrets: RequiredSecret[]
  sha256: string
  manifest_sha256: string
  imports: string[]
  permissions: PluginPermission[]
  note: string
}

export interface CataloguePlugin {
  id: string
  name: string
  description: string | null
  latest_version: string | null
  manifest_url: string
}

interface Change {
  from: string | null
  to: string | null
}

interface Difference {
  added: string[]
  removed: string[]
}

export interface PluginChanges {
  version: Change
  origin: Change
  sha256: Change
  manifest_sha256: Change
  imports: Difference | null
  permissions: Difference
}

/** The body of the 400 that asks for consent. */
export interface ConsentRequired {
  error: 'ConsentRequired'
  message: string
  permissions: PluginPermission[]
  changes?: PluginChanges
}

export interface Provider {
  id: string
  name: string
  auth_type: string
}
