import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { match } from '../src/lib/route'
import { pages } from '../src/pages'

/** Links in the sources: `"#/path"`, `'#/path'`, `` `#/path` ``, and the first argument of what builds one. */
const LINK = /["'`]#(\/[^"'`?]*)|\b(?:href|pathOf|router\.go)\(\s*'(\/[^'?]*)/g

test('every link leads to a page', () => {
  const lost: string[] = []
  for (const name of readdirSync('src', { recursive: true, encoding: 'utf8' })) {
    if (!/\.(svelte|ts)$/.test(name) || name.endsWith('api/types.ts')) continue
    for (const [, plain, built] of readFileSync(`src/${name}`, 'utf8').matchAll(LINK)) {
      // A value in the path stands for any text.
      const path = (plain ?? built ?? '').replace(/\$?\{[^}]*\}|:\w+/g, 'x').replace(/(.)\/$/, '$1')
      if (path !== '/login' && !pages.some((page) => match(page.path, path))) lost.push(`${name}: ${path}`)
    }
  }
  expect(lost).toEqual([])
})

test('no page hides another one', () => {
  const paths = pages.map((page) => page.path)
  const first = (path: string) => paths.find((pattern) => match(pattern, path.replace(/:\w+/g, 'x')))
  expect(paths.filter((path) => first(path) !== path)).toEqual([])
})
