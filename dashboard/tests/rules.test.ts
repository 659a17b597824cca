import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const names = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((name) =>
  /\.(svelte|ts|css)$/.test(name),
)
const files = names
  .filter((name) => !name.endsWith('api/types.ts'))
  .map((name) => ({ name, text: readFileSync(`src/${name}`, 'utf8') }))
const markup = files
  .filter(({ name }) => name.endsWith('.svelte'))
  .map(({ name, text }) => ({ name, text: text.replace(/<(script|style)\b[\s\S]*?<\/\1>|<!--[\s\S]*?-->/g, '') }))

/** Without expressions in braces, which may be nested. */
function withoutExpressions(text: string): string {
  let depth = 0
  let rest = ''
  for (const character of text) {
    if (character === '{') depth += 1
    if (depth === 0) rest += character
    if (character === '}') depth -= 1
  }
  return rest
}

test('nothing is rendered as HTML, and no styles or handlers are inline', () => {
  const forbidden = /\{@html|\.innerHTML\s*=|insertAdjacentHTML|document\.write|\son[a-z]+="/
  expect(files.filter(({ text }) => forbidden.test(text)).map(({ name }) => name)).toEqual([])
  expect(markup.filter(({ text }) => /\sstyle=/.test(text)).map(({ name }) => name)).toEqual([])
})

test('all texts are in texts.ts', () => {
  const found = markup.flatMap(({ name, text }) => {
    const literal = withoutExpressions(text)
    const attributes = [...literal.matchAll(/\s(?:aria-label|title|alt)="([^"]*[A-Za-z]{2}[^"]*)"/g)].map(
      (match) => match[1],
    )
    // A single word in lower case is a value or a part of code.
    const words = literal.split(/<[^>]*>/).filter((part) => /[A-Z][A-Za-z]|[A-Za-z]{2,}\s+[A-Za-z]{2,}/.test(part))
    return [...attributes, ...words].map((word) => `${name}: ${word?.trim() ?? ''}`)
  })
  expect(found).toEqual([])
})

test('files are short enough to be read', () => {
  const MAX_LINES = 400
  const long = files.filter(({ name, text }) => name !== 'texts.ts' && text.split('\n').length > MAX_LINES)
  expect(long.map(({ name }) => name)).toEqual([])
})
