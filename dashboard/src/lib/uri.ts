import { href } from './route'

/** Whether an `at://` URI is in a space: it names a space or a record in one. */
export const isInSpace = (uri: string): boolean => /^at:\/\/[^/]*\/space(\/|$)/.test(uri)

/** The place that looks up a record. Undefined for a text that is no `at://` URI, and for one in a space. */
export function whyOf(uri: string): string | undefined {
  return uri.startsWith('at://') && !isInSpace(uri) ? href('/records/why', { uri }) : undefined
}
