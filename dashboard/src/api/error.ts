export interface ErrorBody {
  /** A code or a text. */
  error: string
  message?: string
  /** Of internal errors: the id under which the server has logged the cause. */
  correlationId?: string
}

/** An answer that is not a success. Its status is 0 when there was no answer. */
export class ApiError extends Error {
  /** Of a 401: whether the user has to log in again. */
  endsSession = false

  constructor(
    readonly status: number,
    readonly body: ErrorBody,
    /** Seconds to wait, of a 429 or 503. */
    readonly retryAfter: number | null = null,
    /** False when the body is not one of this server: a proxy wrote it. */
    readonly isFromServer = true,
  ) {
    super(body.message ?? body.error)
    this.name = 'ApiError'
  }

  /** Of a 403: the permission that is missing, if the server names it. */
  get permission(): string | null {
    if (this.status !== 403) return null
    return /\b([a-z]+(?:-[a-z]+)*:[a-z]+(?:-[a-z]+)*)\b/.exec(this.body.message ?? '')?.[1] ?? null
  }
}

/** For `catch`: null for what does not exist. */
export function nullIfMissing(error: unknown): null {
  if (error instanceof ApiError && error.status === 404) return null
  throw error
}

/** Reads the error that an answer carries. */
export async function errorOf(answer: Response): Promise<ApiError> {
  const seconds = Number(answer.headers.get('retry-after'))
  const retryAfter = Number.isFinite(seconds) && seconds > 0 ? seconds : null
  const body: unknown = await answer.json().catch(() => null)
  if (isErrorBody(body)) return new ApiError(answer.status, body, retryAfter)
  return new ApiError(answer.status, { error: answer.statusText || String(answer.status) }, retryAfter, false)
}

function isErrorBody(body: unknown): body is ErrorBody {
  return typeof body === 'object' && body !== null && typeof (body as ErrorBody).error === 'string'
}
