// After the build: checks the size of what a browser loads first, and compresses every file.
import { readFile, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'

/** What a browser loads before it shows the shell, with gzip. A slow phone gets it in under a second. */
const MAX_FIRST_BYTES = 20_000

/** The same with the shell (sidebar, bar, router), which is loaded while the server is asked who is logged in. */
const MAX_SHELL_BYTES = 38_000

/** The largest file that is loaded later: the editor. */
const MAX_LATER_BYTES = 200_000

/** Smaller files don't shrink by more than their header. */
const MIN_COMPRESSED = 200

const dist = new URL('../dist/', import.meta.url).pathname
const gzip = (bytes) => gzipSync(bytes, { level: 9 })
const brotli = (bytes) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } })

const index = await readFile(join(dist, 'index.html'), 'utf8')
if (/<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=/i.test(index))
  throw new Error('index.html has an inline script or style, which the CSP forbids')

/** Adds what these scripts import before they run. */
async function withImports(names) {
  const all = new Set(names)
  for (const name of all) {
    if (!name.endsWith('.js')) continue
    const code = await readFile(join(dist, name), 'utf8')
    for (const [, file] of code.matchAll(/(?:^|[;}])import(?:[\w$\s{},*]*from)?\s*["'`]\.\/([^"'`]+)["'`]/g))
      all.add(`assets/${file}`)
  }
  return all
}

async function check(what, names, limit) {
  let total = 0
  for (const name of ['index.html', ...names]) total += gzip(await readFile(join(dist, name))).length
  console.log(`${what}: ${total} of ${limit} bytes with gzip`)
  if (total > limit) throw new Error(`${what} is too large: load what it does not need at once by dynamic import`)
}

const files = await readdir(join(dist, 'assets'))
const first = await withImports([...index.matchAll(/(?:src|href)="\.\/(assets\/[^"]+)"/g)].map((match) => match[1]))
await check('first load', first, MAX_FIRST_BYTES)
const shell = files.filter((file) => /^Shell-.*\.(js|css)$/.test(file)).map((file) => `assets/${file}`)
const withShell = await withImports([...first, ...shell])
await check('first load with the shell', withShell, MAX_SHELL_BYTES)

// The browser fetches the shell as soon as it has read the page, not when the first script runs.
const early = [...withShell].filter((name) => !first.has(name))
const links = early.map((name) => {
  const kind = name.endsWith('.js') ? 'rel="modulepreload"' : 'rel="preload" as="style"'
  return `    <link ${kind} crossorigin href="./${name}" />\n`
})
await writeFile(join(dist, 'index.html'), index.replace('  </head>', `${links.join('')}  </head>`))

for (const name of ['index.html', ...files.map((file) => `assets/${file}`)]) {
  if (!/\.(html|js|css|svg|json|map)$/.test(name)) continue
  const bytes = await readFile(join(dist, name))
  const small = gzip(bytes)
  if (small.length > MAX_LATER_BYTES) throw new Error(`${name} has ${small.length} bytes with gzip: split it`)
  if (bytes.length < MIN_COMPRESSED) continue
  await writeFile(join(dist, `${name}.gz`), small)
  await writeFile(join(dist, `${name}.br`), brotli(bytes))
}
