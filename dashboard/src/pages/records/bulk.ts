import type { BulkOutcome } from '../../api/models'

/** Records that the server changes in one request. */
const BATCH = 100

export interface Failure {
  id: string
  error: string
}

/**
 * Changes records in batches, one after the other. Returns those that did not succeed. An error of a batch is that of each of its
 * records, and of those after it.
 */
export async function inBatches(
  ids: string[],
  change: (batch: string[]) => Promise<{ results: BulkOutcome[] }>,
  ondone: (number: number) => void,
): Promise<Failure[]> {
  const failures: Failure[] = []
  for (let from = 0; from < ids.length; from += BATCH) {
    try {
      const { results } = await change(ids.slice(from, from + BATCH))
      for (const { id, ok, error } of results) if (!ok) failures.push({ id, error: error ?? '' })
    } catch (failure) {
      if (from === 0) throw failure
      const error = failure instanceof Error ? failure.message : ''
      return [...failures, ...ids.slice(from).map((id) => ({ id, error }))]
    }
    ondone(Math.min(from + BATCH, ids.length))
  }
  return failures
}
