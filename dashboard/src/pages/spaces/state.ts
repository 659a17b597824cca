import type { Inspection } from '../../api/models/spaces'

/** The state of an inspection. */
export function stateOf({ revoked_at, expires_at }: Inspection, now: Date): 'running' | 'revoked' | 'ended' {
  if (revoked_at) return 'revoked'
  return Date.parse(expires_at) > now.getTime() ? 'running' : 'ended'
}
