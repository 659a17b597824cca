import { expect, test } from 'vitest'
import { byCategory, changes } from '../src/lib/permissions'

test('permissions are under their headings', () => {
  const of = (key: string, category: string) => ({ key, name: key, description: '', category })
  const groups = byCategory([of('a:read', 'A'), of('b:read', 'B'), of('a:create', 'A')])
  expect(groups.map(({ category, permissions }) => [category, permissions.map(({ key }) => key)])).toEqual([
    ['A', ['a:read', 'a:create']],
    ['B', ['b:read']],
  ])
})

test('only differences are granted and revoked', () => {
  expect(changes(['a', 'b'], ['b', 'c'])).toEqual({ grant: ['c'], revoke: ['a'] })
  expect(changes(['a'], ['a'])).toEqual({ grant: [], revoke: [] })
})
