import { expect, test } from 'vitest'
import type { ProfilePlace } from '../src/api/models/scripts'
import { barsOf, nameOf, notesOf } from '../src/lib/profile'

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

test('the lines of a script have their costs beside them', () => {
  const line = (file: string, line: number, instructions: number, host_calls = 0, host_us = 0) => ({
    file,
    line,
    instructions,
    host_calls,
    rows: 2 * host_calls,
    host_us,
  })
  const lines = [
    line('job.run:a', 1, 0),
    line('job.run:a', 2, 1000),
    line('job.run:a', 3, 400),
    line('job.run:a', 4, 5, 2, 300),
    line('job.run:a', 5, 10),
    line('lib:x', 2, 9000),
  ]
  const notes = notesOf(
    { places: [], lines, total: line('', 0, 0) } as unknown as Parameters<typeof notesOf>[0],
    'job.run:a',
  )
  expect(notes.map(({ line, heat }) => [line, heat])).toEqual([
    [2, 3],
    [3, 2],
    [4, 3],
    [5, 0],
  ])
  expect(notes[2]?.text).toContain('300 µs')
  expect(notes[2]?.title).toBe('5 instructions, calls: 2, rows: 4, waiting: 300 µs')
})
