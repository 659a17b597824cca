// Made from the settings of the server (host/instance/src/config/); a test says how.
export const rows = {
  backfill_concurrent_pds: { kind: 'number', standard: '10', range: [1, 64] },
  backfill_concurrent_dids_per_pds: { kind: 'number', standard: '3', range: [1, 16] },
  backfill_concurrent_resolution: { kind: 'number', standard: '100', range: [1, 500] },
  backfill_max_attempts: { kind: 'number', standard: '3', range: [1, 10] },
  backfill_retention_days: { kind: 'number', standard: '28', range: [0, 36500] },
  backfill_max_repos: { kind: 'number', standard: '100000000', range: [1, 4294967295] },
  event_log_retention_days: { kind: 'number', standard: '30', range: [0, 36500] },
  backfill_catch_up: { kind: 'flag', standard: 'true' },
  verbose_event_logging: { kind: 'flag', standard: 'false' },
  space_inspector_enabled: { kind: 'flag', standard: 'false' },
} as const
