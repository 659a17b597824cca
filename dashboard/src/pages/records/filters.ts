import { parseConditions } from '../../lib/conditions'

/** The parameters of the URL that are the filter of the records. */
export const FILTERS = [
  'collection',
  'repo',
  'rkey',
  'text',
  'valid',
  'label',
  'from',
  'before',
  'where',
  'sort',
  'moderated',
]

/** Whether it is a text alone, which is a search: the best matches are first. */
export const isSearchOf = (query: Record<string, string | undefined>) =>
  Boolean(query.text) && FILTERS.every((key) => ['collection', 'text'].includes(key) || !query[key])

/** The parameters of a request for records, from those of the URL. Fields whose conditions can't be read are left out. */
export function conditionsOf(query: Record<string, string | undefined>) {
  const { repo, rkey, text, valid, label, from, before, sort, where = '' } = query
  if (query.moderated === 'true') return { repo, rkey, moderated: 'true' }
  const fields = parseConditions(where) ?? []
  const filter = fields.length > 0 ? JSON.stringify(fields) : null
  return { repo, rkey, text, valid, label, from, before, sort, filter }
}
