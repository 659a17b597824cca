import { expect, test } from 'vitest'
import { bucketOf, leftOf, positive, scopesOf } from '../src/lib/clients'

const defaults = { default_rate_limit_capacity: 100, default_rate_limit_refill_rate: 2 }

test('a client has its own bucket or the default one', () => {
  expect(bucketOf({ rate_limit_capacity: null, rate_limit_refill_rate: null }, defaults)).toContain('default')
  const own = bucketOf({ rate_limit_capacity: 500, rate_limit_refill_rate: null }, defaults)
  expect(own).toContain('500')
  expect(own).toContain('2')
  expect(own).not.toContain('default')
  expect(bucketOf({ rate_limit_capacity: null, rate_limit_refill_rate: null }, null)).toBe('–')
})

test('scopes begin with atproto', () => {
  expect(scopesOf('repo:com.example.note  atproto\nblob:*/*')).toBe('atproto repo:com.example.note blob:*/*')
  expect(scopesOf('')).toBe('atproto')
})

test('numbers are positive or absent', () => {
  expect([positive(' '), positive('0.5')]).toEqual([null, 0.5])
  for (const bad of ['0', '-1', 'many']) expect(() => positive(bad)).toThrow(RangeError)
})

test('the tokens that are left are those of an active client', () => {
  const defaults = { default_rate_limit_capacity: 100, default_rate_limit_refill_rate: 2 }
  expect(leftOf({ tokens: 7, rate_limit_capacity: null }, defaults)).toBe('7 of 100')
  expect(leftOf({ tokens: 7, rate_limit_capacity: 10 }, null)).toBe('7 of 10')
  expect(leftOf({ tokens: null, rate_limit_capacity: 10 }, defaults)).toBe('–')
})
