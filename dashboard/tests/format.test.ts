import { expect, test } from 'vitest'
import { bytes, compact, count, duration, plural, relativeTime, shorten } from '../src/lib/format'

const now = new Date('2026-11-22T12:00:00Z')
const ago = (seconds: number) => relativeTime(new Date(now.getTime() - seconds * 1000), now)

test('relative times use the largest unit', () => {
  expect(ago(3)).toBe('now')
  expect(ago(-3)).toBe('now')
  expect(ago(30)).toBe('30 sec. ago')
  expect(ago(90)).toBe('1 min. ago')
  expect(ago(7200)).toBe('2 hr. ago')
  expect(ago(86_400)).toBe('yesterday')
  expect(ago(-7200)).toBe('in 2 hr.')
  expect(relativeTime(new Date('no time'), now)).toBe('–')
})

test('durations and sizes have two parts at most', () => {
  expect(duration(0.35)).toBe('350 ms')
  expect(duration(4.23)).toBe('4.2 s')
  expect(duration(200)).toBe('3 min 20 s')
  expect(duration(3600)).toBe('1 h')
  expect(duration(90_000)).toBe('1 d 1 h')
  expect(duration(null)).toBe('–')
  expect(bytes(999)).toBe('999 bytes')
  expect(bytes(1_500)).toBe('1.5 kB')
  expect(bytes(34_000_000_000)).toBe('34 GB')
})

test('numbers', () => {
  expect(count(1_234_567)).toBe('1,234,567')
  expect(count(undefined)).toBe('–')
  expect(compact(1_234_567)).toBe('1.2M')
  expect(plural(1, 'record')).toBe('1 record')
  expect(plural(0, 'entry', 'entries')).toBe('0 entries')
})

test('long identifiers keep both ends', () => {
  expect(shorten('did:plc:abc', 20)).toBe('did:plc:abc')
  const short = shorten('did:plc:abcdefghijklmnopqrstuvwx', 20)
  expect(short).toBe('did:plc:abcde…stuvwx')
  expect(short).toHaveLength(20)
})
