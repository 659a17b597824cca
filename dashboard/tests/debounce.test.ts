import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { debounced } from '../src/lib/debounce'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('only the last value is used, and none after the page was left', () => {
  const used: string[] = []
  const type = debounced((text: string) => used.push(text))
  type('a')
  type('ab')
  vi.runAllTimers()
  expect(used).toEqual(['ab'])
  type('abc')
  type.cancel()
  vi.runAllTimers()
  expect(used).toEqual(['ab'])
})
