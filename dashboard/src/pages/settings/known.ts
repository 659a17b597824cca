import { settingTexts } from '../../texts'
import { rows } from './rows'

/** A setting that the server knows. */
export interface KnownSetting {
  key: keyof typeof settingTexts
  kind: 'text' | 'url' | 'number' | 'flag'
  /** What counts while nothing is set. */
  standard?: string
  range?: readonly [number, number]
}

/** The settings whose keys begin so, with what the server says of them. */
function of(prefix: string): KnownSetting[] {
  const keys = Object.keys(rows) as (keyof typeof rows)[]
  return keys.filter((key) => key.startsWith(prefix)).map((key) => ({ key, ...rows[key] }))
}

/** Sections of the settings page. */
export const sections: {
  section: 'instance' | 'events' | 'limits' | 'backfill' | 'spaces'
  settings: KnownSetting[]
}[] = [
  {
    section: 'instance',
    settings: [
      { key: 'app_name', kind: 'text' },
      { key: 'client_uri', kind: 'url' },
      { key: 'logo_uri', kind: 'url' },
      { key: 'tos_uri', kind: 'url' },
      { key: 'policy_uri', kind: 'url' },
      { key: 'profile_collection', kind: 'text', standard: 'app.bsky.actor.profile' },
      { key: 'profile_rkey', kind: 'text', standard: 'self' },
    ],
  },
  { section: 'events', settings: [...of('event_log_'), ...of('verbose_event_logging')] },
  {
    section: 'limits',
    settings: [
      { key: 'rate_limit.default_query_cost', kind: 'number', standard: '1' },
      { key: 'rate_limit.default_procedure_cost', kind: 'number', standard: '1' },
      { key: 'rate_limit.default_proxy_cost', kind: 'number', standard: '1' },
      { key: 'rate_limit.message_cost', kind: 'number', standard: '0' },
    ],
  },
  { section: 'backfill', settings: of('backfill_') },
  { section: 'spaces', settings: of('space_') },
]

/** Settings that have a page or a part of their own. */
const ELSEWHERE = /^(feature\.|xrpc_proxy_config$)/

/** Stored settings that no section has: other software may use them. */
export function others<T extends { key: string }>(settings: T[]): T[] {
  const known = new Set<string>(sections.flatMap((section) => section.settings.map(({ key }) => key)))
  return settings.filter(({ key }) => !known.has(key) && !ELSEWHERE.test(key))
}
