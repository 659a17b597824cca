import type { ApiClient } from '../api/models/access'
import { clients as t } from '../texts'

interface Defaults {
  default_rate_limit_capacity: number
  default_rate_limit_refill_rate: number
}

/** The bucket of a client: its own, or the server's. */
export function bucketOf(
  client: Pick<ApiClient, 'rate_limit_capacity' | 'rate_limit_refill_rate'>,
  defaults: Defaults | null,
): string {
  const capacity = client.rate_limit_capacity ?? defaults?.default_rate_limit_capacity
  const refill = client.rate_limit_refill_rate ?? defaults?.default_rate_limit_refill_rate
  if (capacity === undefined || refill === undefined) return '–'
  const isDefault = client.rate_limit_capacity === null && client.rate_limit_refill_rate === null
  return t.bucketOf(capacity, refill, isDefault)
}

/** What is left in the bucket of a client. */
export function leftOf(
  { tokens, rate_limit_capacity }: Pick<ApiClient, 'tokens' | 'rate_limit_capacity'>,
  defaults: Defaults | null,
): string {
  const capacity = rate_limit_capacity ?? defaults?.default_rate_limit_capacity
  return tokens === null || capacity === undefined ? '–' : t.leftOf(tokens, capacity)
}

/** The scopes of a text, with `atproto` first and none twice. */
export function scopesOf(text: string): string {
  return [...new Set(['atproto', ...text.split(/\s+/).filter(Boolean)])].join(' ')
}

/** A number that was entered, null for none. Throws for text that is no positive number. */
export function positive(text: string): number | null {
  if (!text.trim()) return null
  const number = Number(text)
  if (!Number.isFinite(number) || number <= 0) throw new RangeError(text)
  return number
}
