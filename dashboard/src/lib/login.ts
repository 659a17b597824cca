import { login as t } from '../texts'
import { parsePlace } from './route'

/** Why a login failed that has ended at this place; null for every other place. */
export function failedLogin(hash: string): string | null {
  const { path, query } = parsePlace(hash)
  const code = path === '/login' ? query.error : undefined
  if (!code) return null
  return Object.hasOwn(t.reasons, code) ? t.reasons[code]! : t.otherReason(code.slice(0, 64))
}
