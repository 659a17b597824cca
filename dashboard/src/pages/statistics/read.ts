import { api } from '../../api/client'
import type { MetricHistory } from '../../api/models'
import { timesOf, type Range } from './range'

/** Milliseconds after which a history that is shown is read again. */
export const EVERY = 30_000

export interface Wanted {
  range: Range
  /** Series at most; the others are summed up. */
  top?: number
  /** Only this series. */
  label?: string | undefined
  /** One series of all together. */
  isCombined?: boolean | undefined
  /** With the period before. */
  isCompared?: boolean
}

/** The history of a metric. */
export function readMetric(metric: string, wanted: Wanted, signal: AbortSignal): Promise<MetricHistory> {
  const { range, top = 10, label, isCombined, isCompared } = wanted
  const more = {
    ...(label === undefined ? {} : { label }),
    ...(isCombined ? { combined: true } : {}),
    ...(isCompared ? { compare: 'previous' as const } : {}),
  }
  return api.get('/admin/metrics', { metric, top, ...timesOf(range, Date.now()), ...more }, signal)
}
