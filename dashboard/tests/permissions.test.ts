import { expect, test } from 'vitest'
import { byCategory, changes, replaced, templateOf, toggled } from '../src/lib/permissions'

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

test('a template is recognised by what the catalogue lists', () => {
  const listed = ['a:read', 'a:create'].map((key) => ({ key, name: key, description: '', category: 'A' }))
  const of = (key: string, permissions: string[]) => ({ key, label: key, permissions })
  const catalogue = {
    permissions: listed,
    templates: [of('viewer', ['a:read']), of('all', ['a:create', 'a:read', 'off:read'])],
  }
  expect(templateOf(catalogue, ['a:read'])?.key).toBe('viewer')
  expect(templateOf(catalogue, ['off:read', 'a:read', 'a:create'])?.key).toBe('all')
  expect(templateOf(catalogue, ['a:create'])).toBeUndefined()
})

test('a permission that is not listed stays', () => {
  const after = toggled(['off:read', 'a:read'], 'a:create', true)
  expect(changes(['off:read', 'a:read'], after)).toEqual({ grant: ['a:create'], revoke: [] })
  expect(toggled(after, 'a:read', false)).toEqual(['off:read', 'a:create'])
  expect(toggled(['a:read'], 'a:read', true)).toEqual(['a:read'])
})

test('a template leaves alone what is not shown and what may not be changed', () => {
  const listed = ['a:read', 'a:create', 'b:read'].map((key) => ({ key, name: key, description: '', category: 'A' }))
  const catalogue = { permissions: listed, templates: [] }
  const may = (key: string) => key !== 'b:read'
  expect(replaced(catalogue, ['off:read', 'b:read', 'a:create'], ['a:read', 'off:create'], may)).toEqual([
    'off:read',
    'b:read',
    'a:read',
  ])
  expect(replaced(catalogue, ['a:read'], ['b:read'], may)).toEqual([])
  expect(replaced(catalogue, ['off:read', 'a:read'], [], () => true)).toEqual(['off:read'])
})
