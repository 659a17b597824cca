import { expect, test } from 'vitest'
import { DAY, rangeOf, selectedRange, timesOf, windowOf } from '../src/pages/statistics/range'

test('the window is a day unless the URL names one', () => {
  expect(windowOf({})).toEqual(DAY)
  expect(windowOf({ window: '7d' }).seconds).toBe(7 * 86_400)
  expect(windowOf({ window: 'year' })).toEqual(DAY)
})

test('a range is what the URL says, if it can be read', () => {
  const [from, until] = ['2026-11-27T10:00:00Z', '2026-11-27T11:00:00Z']
  expect(rangeOf({ from, until }, DAY)).toEqual({ key: 'custom', from, until })
  expect(rangeOf({ from }, DAY)).toEqual({ key: 'custom', from })
  const bad: Record<string, string>[] = [{}, { from: 'x' }, { until }, { from: until, until: from }]
  for (const query of bad) expect(rangeOf(query, DAY)).toEqual(DAY)
  expect(rangeOf({ from, until: 'x' }, DAY)).toEqual({ key: 'custom', from })
})

test('a window begins before now, a range where it says', () => {
  const now = Date.parse('2026-11-27T12:00:00Z')
  expect(timesOf(DAY, now)).toEqual({ from: '2026-11-26T12:00:00.000Z' })
  expect(timesOf({ key: 'custom', from: 'a' }, now)).toEqual({ from: 'a' })
  expect(timesOf({ key: 'custom', from: 'a', until: 'b' }, now)).toEqual({ from: 'a', until: 'b' })
})

test('a selection is at least two minutes', () => {
  expect(selectedRange(1_000.4, 2_000)).toEqual({ from: '1970-01-01T00:16:40Z', until: '1970-01-01T00:33:20Z' })
  expect(selectedRange(1_000, 1_020)).toEqual({ from: '1970-01-01T00:15:50Z', until: '1970-01-01T00:17:50Z' })
})
