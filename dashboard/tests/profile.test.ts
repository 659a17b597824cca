import { expect, test } from 'vitest'
import type { ProfilePlace } from '../src/api/models/scripts'
import { barsOf, nameOf } from '../src/lib/profile'

const place = (caller: number | null, line: number, instructions: number): ProfilePlace => ({
  caller,
  function: `f${line}`,
  file: 'lib:a',
  line,
  instructions,
  host_calls: 0,
  rows: 0,
  host_us: 0,
})

test('a bar is as wide as what it and its calls cost', () => {
  const places = [place(null, 1, 10), place(0, 2, 60), place(1, 3, 10), place(null, 4, 20)]
  const bars = barsOf(places, 'instructions')
  const shown = bars.map(({ place, depth, left, width, total }) => [place.line, depth, left, width, total])
  expect(shown.toSorted()).toEqual([
    [1, 0, 0, 0.8, 80],
    [2, 1, 0, 0.7, 70],
    [3, 2, 0, 0.1, 10],
    [4, 0, 0.8, 0.2, 20],
  ])
  expect(barsOf(places, 'host_us')).toEqual([])
})

test('bars that are too narrow are left out', () => {
  const bars = barsOf([place(null, 1, 10_000), place(0, 2, 1), place(0, 3, 5000)], 'instructions')
  expect(bars.map(({ place }) => nameOf(place))).toEqual(['f1:1', 'f3:3'])
})
