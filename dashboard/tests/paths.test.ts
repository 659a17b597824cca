import { expect, test } from 'vitest'
import type { AnswerOf, BodyOf, PathOf, QueryOf } from '../src/api/paths'
import type { Schema } from '../src/api/models'

/** Checked by `npm run check`: the lines below an expected error must be errors. */
test('the types know paths, parameters, bodies and answers', () => {
  const path: PathOf<'get'> = '/admin/scripts/{}/revisions/{}'
  // @ts-expect-error no such path
  const unknown: PathOf<'get'> = '/admin/recordz'
  // @ts-expect-error the path has no such method
  const method: PathOf<'delete'> = '/admin/scripts/check'
  const query: QueryOf<'get', '/admin/records'> = { collection: 'a', rkey: null }
  // @ts-expect-error no such parameter
  const parameter: QueryOf<'get', '/admin/records'> = { colection: 'a' }
  // @ts-expect-error it takes none
  const none: QueryOf<'get', '/admin/users'> = { limit: 5 }
  const body: BodyOf<'post', '/admin/labelers'> = { did: 'did:plc:a' }
  // @ts-expect-error a field that is needed
  const empty: BodyOf<'post', '/admin/labelers'> = {}
  const answer: AnswerOf<'get', '/admin/users/{}'> = {} as Schema<'User'>
  // @ts-expect-error it answers nothing
  const nothing: AnswerOf<'delete', '/admin/users/{}'> = {}
  expect([path, unknown, method, query, parameter, none, body, empty, answer, nothing]).toHaveLength(10)
})
