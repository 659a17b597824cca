import type { MetricHistory } from '../../api/models'
import type { Series } from '../../components/chart'
import { compact, count, duration } from '../../lib/format'

/** How values are shown: a counter as its amount or per second, a measurement as it is. */
export type Unit = 'rate' | 'count' | 'seconds' | 'milliseconds'

interface Names {
  /** The sum of the rest. */
  other: string
  /** Labels that name nothing by themselves. The only line of a metric without labels has the label “”. */
  labels: Record<string, string>
}

/** Seconds of a step below which its rate says nothing yet. */
const MIN_ELAPSED = 10

/** Values per second. The last step has not ended: what it has counted is of the time until now. */
function rates(values: (number | null)[], { step, times, until }: MetricHistory): (number | null)[] {
  const end = Date.parse(until) / 1000
  return values.map((value, at) => {
    const seconds = Math.min(step, end - (times[at] ?? 0))
    return value === null || seconds < MIN_ELAPSED ? null : value / seconds
  })
}

/** The lines of a chart. */
export function seriesOf(history: MetricHistory, unit: Unit, t: Names): Series[] {
  return history.series.map(({ label, name, is_other, values, previous }) => ({
    label: is_other ? t.other : (t.labels[label] ?? name ?? label),
    values: unit === 'rate' ? rates(values, history) : values,
    ...(previous
      ? { previous: unit === 'rate' ? previous.map((value) => value && value / history.step) : previous }
      : {}),
  }))
}

export function formatOf(unit: Unit): (value: number) => string {
  if (unit === 'seconds') return (value) => duration(value)
  if (unit === 'milliseconds') return (value) => duration(value / 1000)
  if (unit === 'rate') return (value) => `${Number(value.toPrecision(3))}/s`
  return (value) => (value < 1e6 ? count(Math.round(value)) : compact(value))
}

/** The smallest end of the y axis: less is as good as nothing. */
export const AT_LEAST: Record<Unit, number> = { rate: 0.1, count: 5, seconds: 1, milliseconds: 10 }
