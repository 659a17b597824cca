import { expect, test } from 'vitest'
import { fieldOf, timeOf } from '../src/lib/times'

test('a field shows the time that it named, whatever the zone', () => {
  for (const field of ['2026-01-31T23:30', '2026-07-01T00:05']) expect(fieldOf(timeOf(field)!)).toBe(field)
  expect([fieldOf(undefined), fieldOf('yesterday'), timeOf('')]).toEqual(['', '', null])
})
