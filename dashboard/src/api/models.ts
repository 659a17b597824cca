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
