import { settingTexts } from '../../texts'

/** A setting that the server knows. */
export interface KnownSetting {
  key: keyof typeof settingTexts
  kind: 'text' | 'url' | 'number' | 'flag'
  /** What counts while nothing is set. */
  standard?: string
  range?: [number, number]
}

/** Sections of the settings page. */
export const sections: { section: 'instance' | 'events' | 'limits' | 'backfill'; settings: KnownSetting[] }[] = [
  {
    section: 'instance',
    settings: [
      { key: 'app_name', kind: 'text' },
      { key: 'client_uri', kind: 'url' },
      { key: 'logo_uri', kind: 'url' },
      { key: 'tos_uri', kind: 'url' },
      { key: 'policy_uri', kind: 'url' },
    ],
  },
  {
    section: 'events',
    settings: [
      { key: 'event_log_retention_days', kind: 'number', standard: '30', range: [0, 36_500] },
      { key: 'verbose_event_logging', kind: 'flag', standard: 'false' },
    ],
  },
  {
    section: 'limits',
    settings: [
      { key: 'rate_limit.default_query_cost', kind: 'number', standard: '1' },
      { key: 'rate_limit.default_procedure_cost', kind: 'number', standard: '1' },
      { key: 'rate_limit.default_proxy_cost', kind: 'number', standard: '1' },
    ],
  },
  {
    section: 'backfill',
    settings: [
      { key: 'backfill_concurrent_pds', kind: 'number', standard: '10', range: [1, 64] },
      { key: 'backfill_concurrent_dids_per_pds', kind: 'number', standard: '3', range: [1, 16] },
      { key: 'backfill_concurrent_resolution', kind: 'number', standard: '100', range: [1, 500] },
      { key: 'backfill_max_attempts', kind: 'number', standard: '3', range: [1, 10] },
      { key: 'backfill_retention_days', kind: 'number', standard: '28', range: [0, 36_500] },
      { key: 'backfill_max_repos', kind: 'number', standard: '100000000', range: [1, 4_294_967_295] },
      { key: 'backfill_catch_up', kind: 'flag', standard: 'true' },
    ],
  },
]

/** Settings that have a page or a part of their own. */
const ELSEWHERE = /^(feature\.|xrpc_proxy_config$)/

/** Stored settings that no section has: other software may use them. */
export function others<T extends { key: string }>(settings: T[]): T[] {
  const known = new Set<string>(sections.flatMap((section) => section.settings.map(({ key }) => key)))
  return settings.filter(({ key }) => !known.has(key) && !ELSEWHERE.test(key))
}
