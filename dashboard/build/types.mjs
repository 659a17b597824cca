// Writes src/api/types.ts, the types of what the server answers, from openapi.json, which a test of the server keeps equal
// to what it does.
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import openapiTS, { astToString } from 'openapi-typescript'

const root = new URL('../', import.meta.url)
const description = JSON.parse(await readFile(new URL('openapi.json', root), 'utf8'))
const text = astToString(await openapiTS(description))
const file = new URL('src/api/types.ts', root)
// An unchanged file keeps its time, so that nothing is built again.
if ((await readFile(file, 'utf8').catch(() => null)) !== text) {
  await mkdir(new URL('.', file), { recursive: true })
  await writeFile(file, text)
}
