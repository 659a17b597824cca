import { ApiError } from '../api/error'

/** The newest revision of what a form changes, saved by someone else since the form read it. */
export interface Conflict {
  /** 0 when it was deleted. */
  revision: number
  /** Its text; null when it was deleted. */
  text: string | null
  /** A script's description. */
  description?: string | null
  by: string | null
  at: string | null
}

/** Whether a save was refused because there is a newer revision. */
export function isStale(error: unknown): boolean {
  return error instanceof ApiError && error.status === 409
}
