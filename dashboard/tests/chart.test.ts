import { expect, test } from 'vitest'
import type { MetricHistory } from '../src/api/models'
import { afterKey, axisTime, axisWidth, summary } from '../src/components/chart'
import { formatOf, seriesOf } from '../src/pages/statistics/metrics'

const line = (label: string, values: (number | null)[], more = {}) => ({
  label,
  name: null,
  is_other: false,
  total: 0,
  values,
  ...more,
})
const names = { other: 'others', labels: { '(none)': 'nobody' } }

test('counters become rates, and lines have names', () => {
  const series = [
    line('com.example.a', [300, null]),
    line('id', [600, 0], { name: 'My app' }),
    line('(none)', [0, 0]),
    line('(other)', [0, 0], { is_other: true }),
  ]
  const history = { step: 300, times: [0, 300], until: '1970-01-01T00:10:00Z', series } as MetricHistory
  expect(seriesOf(history, 'rate', names)[0]?.values).toEqual([1, null])
  expect(seriesOf(history, 'count', names)[0]?.values).toEqual([300, null])
  expect(seriesOf(history, 'rate', names).map(({ label }) => label)).toEqual([
    'com.example.a',
    'My app',
    'nobody',
    'others',
  ])
})

test('the last step is as long as it has lasted', () => {
  const rate = (until: string) =>
    seriesOf(
      { step: 60, times: [0, 60], until, series: [line('a', [120, 60])] } as unknown as MetricHistory,
      'rate',
      names,
    )
  expect(rate('1970-01-01T00:01:30Z')[0]?.values).toEqual([2, 2])
  expect(rate('1970-01-01T00:01:05Z')[0]?.values).toEqual([2, null])
})

test('the values of the period before are rates too', () => {
  const series = [line('a', [60], { previous: [120] })]
  const history = { step: 60, times: [0], until: '1970-01-01T00:01:00Z', series } as MetricHistory
  expect(seriesOf(history, 'rate', names)[0]).toMatchObject({ values: [1], previous: [2] })
  expect(seriesOf(history, 'count', names)[0]?.previous).toEqual([120])
})

test('the keyboard chooses steps, and with Shift a range', () => {
  expect(afterKey('ArrowRight', false, null, 5)).toEqual({ anchor: 0, at: 0 })
  expect(afterKey('ArrowLeft', false, null, 5)).toEqual({ anchor: 4, at: 4 })
  expect(afterKey('ArrowRight', true, { anchor: 1, at: 1 }, 5)).toEqual({ anchor: 1, at: 2 })
  expect(afterKey('End', true, { anchor: 1, at: 2 }, 5)).toEqual({ anchor: 1, at: 4 })
  expect(afterKey('ArrowLeft', false, { anchor: 1, at: 4 }, 5)).toEqual({ anchor: 3, at: 3 })
  expect(afterKey('PageUp', true, { anchor: 3, at: 3 }, 5)).toEqual({ anchor: 3, at: 0 })
  expect(afterKey('a', false, null, 5)).toBeNull()
  expect(afterKey('Home', false, null, 0)).toBeNull()
})

test('values are written with their unit', () => {
  expect(formatOf('rate')(0.12345)).toBe('0.123/s')
  expect(formatOf('milliseconds')(1500)).toBe('1.5 s')
  expect(formatOf('seconds')(90)).toBe('1 min 30 s')
  expect(formatOf('count')(1234.4)).toBe('1,234')
})

test('a chart has a summary for those who can not see it', () => {
  expect(summary({ label: 'a', values: [1, 5, null, 3, null] })).toEqual({ last: 3, max: 5 })
  expect(summary({ label: 'a', values: [null] })).toEqual({ last: null, max: null })
})

test('the axes show days at midnight and have room for their labels', () => {
  const midnight = new Date(2026, 10, 22).getTime() / 1000
  expect(axisTime(midnight, 3600)).toBe('22 Nov')
  expect(axisTime(midnight + 3600, 3600)).toBe('01:00')
  expect(axisTime(midnight + 3600, 86_400)).toBe('22 Nov')
  expect(axisWidth(['1 min 40 s'])).toBeGreaterThan(axisWidth(['0']))
  expect(axisWidth(null)).toBeGreaterThan(0)
})
