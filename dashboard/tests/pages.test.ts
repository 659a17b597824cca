import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { pages } from '../src/pages'

test('pages read first what the browser is told to ask for', () => {
  const early = pages.filter(({ reads }) => reads)
  expect(early.length).toBeGreaterThan(5)
  for (const { reads, load } of early) {
    // Vitest keeps the import's address in the function's text.
    const [, file] = /([\w-]+)\.svelte/.exec(load.toString()) ?? []
    const source = readFileSync(new URL(`../src/pages/${file}.svelte`, import.meta.url), 'utf8')
    expect(source, `${file} reads ${reads}`).toContain(`api.get('${reads}', {}`)
  }
})
