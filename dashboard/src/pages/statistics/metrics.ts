import type { MetricHistory } from '../../api/models'
import type { Series } from '../../components/chart'
import { count, duration } from '../../lib/format'

export interface Span {
  key: 'hours' | 'day' | 'week'
  seconds: number
}

/** The server keeps a week. */
export const SPANS = [
  { key: 'hours', seconds: 6 * 3_600 },
  { key: 'day', seconds: 86_400 },
  { key: 'week', seconds: 7 * 86_400 },
] as const satisfies Span[]

/** How values are shown: a counter as its amount or per second, a measurement as it is. */
export type Unit = 'rate' | 'count' | 'seconds' | 'milliseconds'

interface Names {
  /** The sum of the rest. */
  other: string
  /** Labels that name nothing by themselves. The only line of a metric without labels has the label “”. */
  labels: Record<string, string>
}

/** The lines of a chart. */
export function seriesOf(history: MetricHistory, unit: Unit, t: Names): Series[] {
  const scale = (value: number | null) => (value !== null && unit === 'rate' ? value / history.step : value)
  return history.series.map(({ label, name, is_other, values }) => ({
    label: is_other ? t.other : (t.labels[label] ?? name ?? label),
    values: values.map(scale),
  }))
}

export function formatOf(unit: Unit): (value: number) => string {
  if (unit === 'seconds') return (value) => duration(value)
  if (unit === 'milliseconds') return (value) => duration(value / 1000)
  if (unit === 'rate') return (value) => `${Number(value.toPrecision(3))}/s`
  return (value) => count(Math.round(value))
}

/** The smallest end of the y axis: less is as good as nothing. */
export const AT_LEAST: Record<Unit, number> = { rate: 0.1, count: 5, seconds: 1, milliseconds: 10 }
