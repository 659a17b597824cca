import { api } from '../../api/client'
import type { MetricHistory } from '../../api/models'
import type { Span } from './metrics'

/** Milliseconds after which a history that is shown is read again. */
export const EVERY = 30_000

/** The history of a metric: its largest series up to `top`, and the sum of the rest. */
export function readMetric(metric: string, span: Span, top: number, signal: AbortSignal): Promise<MetricHistory> {
  const from = new Date(Date.now() - span.seconds * 1000).toISOString()
  return api.get('/admin/metrics', { metric, from, top }, signal)
}
