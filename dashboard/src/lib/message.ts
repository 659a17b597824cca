import { ApiError } from '../api/error'
import { exactTime } from './format'
import { network } from './network.svelte'
import { session } from './session.svelte'
import { errors as t } from '../texts'

/** A failure in the page itself, with a text for the user. */
export class PageError extends Error {}

/**
 * Tells the user about a failure: what happened, and what to do. What to do changes while the message is shown: when the server
 * is back, and when the user has logged in again.
 */
export function message(error: unknown): string {
  if (error instanceof PageError) return error.message
  if (!(error instanceof ApiError)) return t.unknown
  if (error.status === 0) return network.isLost ? t.unreachable : t.unanswered
  if (error.endsSession) return session.isEnded ? t.loggedOut : t.loggedInAgain
  if (error.status === 403 && error.permission) return t.permission(error.permission)
  if (error.status === 429 && error.retryAfter) return t.tooMany(error.retryAfter)
  if (error.body.correlationId) return t.internal(error.body.correlationId)
  if (!error.isFromServer) return t.proxy(error.status)
  return sentence(error.message)
}

const TIME = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g

/** A text of the server with its times as people write them. */
export function withTimes(text: string): string {
  return text.replace(TIME, (time) => exactTime(new Date(time)))
}

/** A text of the server, which begins in lower case and has no full stop, as a sentence. */
export function sentence(text: string): string {
  const first = text.charAt(0)
  // Names of fields and identifiers keep their case.
  const begin = /^[a-z]+[ ,’']/.test(text) ? first.toUpperCase() : first
  return `${begin}${text.slice(1)}${/[.!?…:)]$/.test(text) ? '' : '.'}`
}
