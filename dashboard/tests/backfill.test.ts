import { expect, test } from 'vitest'
import type { Backfill } from '../src/api/models/operations'
import { actionsOf, after, isEnded, progressOf } from '../src/lib/backfill'

const job = { status: 'running', stage: 'pending', total_repos: null, total_records: 0 } as Backfill

test('messages update the progress', () => {
  let now = progressOf(job)
  now = after(now, {
    type: 'job_snapshot',
    status: 'running',
    stage: 'resolving_and_fetching',
    total_repos: 10,
    resolved_repos: 2,
    processed_repos: 1,
    total_records: 5,
  })
  expect(now).toMatchObject({ total: 10, processed: 1, stage: 'resolving_and_fetching' })
  now = after(now, { type: 'job_counters', processed_repos: 4, failed_repos: 2, total_repos: null })
  expect(now).toMatchObject({ total: 10, processed: 4, failed: 2, records: 5 })
  now = after(now, { type: 'repo_fetched', did: 'did:plc:a', pds_endpoint: 'https://pds.example', records_fetched: 3 })
  expect(now.repos).toEqual([{ did: 'did:plc:a', host: 'https://pds.example', records: 3 }])
  expect(after(now, { type: 'later_kind' })).toBe(now)
  now = after(now, { type: 'job_completed', status: 'failed', error: 'no relay' })
  expect([now.status, now.error, isEnded(now.status)]).toEqual(['failed', 'no relay', true])
})

test('only the last repos are kept', () => {
  let now = progressOf(job)
  for (let at = 0; at < 20; at++)
    now = after(now, { type: 'repo_fetched', did: `did:plc:${at}`, pds_endpoint: 'x', records_fetched: 0 })
  expect(now.repos.map((repo) => repo.did).slice(0, 2)).toEqual(['did:plc:19', 'did:plc:18'])
  expect(now.repos.length).toBeLessThan(10)
})

test('a state allows what the server accepts', () => {
  const none = { pause: false, resume: false, cancel: false, cancelAfterResume: false }
  for (const kind of ['backfill', 'job'] as const) {
    expect(actionsOf('running', kind)).toEqual({ ...none, pause: true, cancel: true })
    expect(actionsOf('pausing', kind)).toEqual(none)
    expect(actionsOf('completed', kind)).toEqual(none)
  }
  expect(actionsOf('paused', 'job')).toEqual({ ...none, resume: true, cancel: true })
  expect(actionsOf('paused', 'backfill')).toEqual({ ...none, resume: true, cancelAfterResume: true })
  expect(actionsOf('pending', 'job').cancel).toBe(true)
})
