import type { Backfill } from '../api/models/operations'

/** What a page shows of a running backfill. */
export interface Progress {
  status: string
  stage: string
  total: number | null
  resolved: number | null
  processed: number | null
  failed: number | null
  records: number | null
  error: string | null
  /** The repos that were read last, newest first. */
  repos: { did: string; host: string; records: number }[]
}

/** Repos that are shown while they are read: more would move too fast to read. */
const MAX_REPOS = 8

export type Message = Record<string, unknown> & { type: string }

export function progressOf(job: Backfill): Progress {
  return {
    status: job.status,
    stage: job.stage,
    total: job.total_repos,
    resolved: job.resolved_repos,
    processed: job.processed_repos,
    failed: job.failed_repos,
    records: job.total_records,
    error: job.error,
    repos: [],
  }
}

/** The progress after a message of the backfill's stream. Counters that a message leaves out stay. */
export function after(progress: Progress, message: Message): Progress {
  const number = (key: string, before: number | null) => (message[key] as number | null | undefined) ?? before
  const counters = () => ({
    total: number('total_repos', progress.total),
    resolved: number('resolved_repos', progress.resolved),
    processed: number('processed_repos', progress.processed),
    failed: number('failed_repos', progress.failed),
    records: number('total_records', progress.records),
  })
  switch (message.type) {
    case 'job_snapshot':
      return {
        ...progress,
        ...counters(),
        status: String(message.status),
        stage: String(message.stage),
      }
    case 'job_counters':
      return { ...progress, ...counters() }
    case 'job_stage_changed':
      return { ...progress, stage: String(message.stage) }
    case 'job_completed':
      return { ...progress, status: String(message.status), error: (message.error as string | null) ?? null }
    case 'repo_fetched': {
      const repo = {
        did: String(message.did),
        host: String(message.pds_endpoint),
        records: Number(message.records_fetched),
      }
      return { ...progress, repos: [repo, ...progress.repos].slice(0, MAX_REPOS) }
    }
    default:
      return progress
  }
}

export const isEnded = (status: string) => ['completed', 'failed', 'cancelled'].includes(status)

/** What the operator can do in this state. A paused job can be cancelled, a paused backfill only after it was resumed. */
export function actionsOf(status: string, kind: 'backfill' | 'job') {
  const isPaused = status === 'paused'
  return {
    pause: status === 'running',
    resume: isPaused,
    cancel: isPaused ? kind === 'job' : ['running', 'pending'].includes(status),
    cancelAfterResume: isPaused && kind === 'backfill',
  }
}
