// After the build: writes the two pages, checks the size of what a browser loads first, and compresses every file.
import { readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'

/** What every browser loads first, with gzip. */
const MAX_FIRST_BYTES = 20_000

/** The same with the login. A slow phone gets it in under a second. */
const MAX_LOGIN_BYTES = 40_000

/** The same with the shell (sidebar, bar, router) and what most pages use. */
const MAX_SESSION_BYTES = 60_000

/** What the first script asks the server (`src/api/session.ts`). */
const QUESTIONS = ['/auth/me', '/config']

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

/** The files of each module that is loaded by itself, and what they import. Only this script needs it. */
const manifest = JSON.parse(await readFile(join(dist, '.vite/manifest.json'), 'utf8'))
await rm(join(dist, '.vite'), { recursive: true })

/** The files of a module with all that it imports before it runs. */
function filesOf(module) {
  const all = new Set(
    Object.keys(manifest).filter((key) => manifest[key].name === module && manifest[key].file.endsWith('.js')),
  )
  if (all.size !== 1) throw new Error(`the build has ${all.size} scripts with the name ${module}`)
  for (const key of all) for (const imported of manifest[key].imports ?? []) all.add(imported)
  return new Set([...all].flatMap((key) => [manifest[key].file, ...(manifest[key].css ?? [])]))
}

async function check(what, names, limit) {
  let total = 0
  for (const name of ['index.html', ...names]) total += gzip(await readFile(join(dist, name))).length
  console.log(`${what}: ${total} of ${limit} bytes with gzip`)
  if (total > limit) throw new Error(`${what} is too large: load what it does not need at once by dynamic import`)
}

const first = filesOf('index')
await check('first load', first, MAX_FIRST_BYTES)

/** Writes a page whose browser fetches a view as soon as it has read the page, not when the first script runs. */
async function writePage(name, modules, limit, html) {
  const all = new Set([...first, ...modules.flatMap((module) => [...filesOf(module)])])
  await check(`first load of ${name}`, all, limit)
  const links = [...all]
    .filter((file) => !first.has(file))
    .map((file) => {
      const kind = file.endsWith('.js') ? 'rel="modulepreload"' : 'rel="preload" as="style"'
      return `    <link ${kind} crossorigin href="./${file}" />\n`
    })
  // A browser opens six connections: what loads more comes first.
  links.splice(3, 0, ...QUESTIONS.map((path) => `    <link rel="preload" as="fetch" crossorigin href="..${path}" />\n`))
  await writeFile(join(dist, name), html.replace('  </head>', `${links.join('')}  </head>`))
}

// The server sends the second page to a browser that was logged in.
await writePage('index.html', ['Login'], MAX_LOGIN_BYTES, index)
await writePage(
  'session.html',
  ['pages', 'Shell', 'parts'],
  MAX_SESSION_BYTES,
  index.replace('<html', '<html data-session'),
)

const assets = (await readdir(join(dist, 'assets'))).map((file) => `assets/${file}`)
for (const name of ['index.html', 'session.html', ...assets]) {
  if (!/\.(html|js|css|svg|json|map)$/.test(name)) continue
  const bytes = await readFile(join(dist, name))
  const small = gzip(bytes)
  if (small.length > MAX_LATER_BYTES) throw new Error(`${name} has ${small.length} bytes with gzip: split it`)
  if (bytes.length < MIN_COMPRESSED) continue
  await writeFile(join(dist, `${name}.gz`), small)
  await writeFile(join(dist, `${name}.br`), brotli(bytes))
}
