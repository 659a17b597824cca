// Temporary: a populated server for screenshots.
import fs from 'node:fs'
import { NOTE, LIST, query, record } from './lib/lexicons.mjs'
import { newAccount, newServer } from './world.mjs'
import { until } from './lib/until.mjs'
const alice = await newAccount()
const server = await newServer({ owner: alice })
await server.upload(record(NOTE))
await server.upload(query(LIST), { target_collection: NOTE })
await server.upload({ lexicon: 1, id: 'com.example.putNote', defs: { main: { type: 'procedure', description: 'Writes a note.', input: { encoding: 'application/json', schema: { type: 'object', required: ['text'], properties: { n: { type: 'integer', minimum: 0, maximum: 10, description: 'How often.' }, text: { type: 'string', description: 'What it says.' }, tags: { type: 'array', items: { type: 'string' } }, reply: { type: 'ref', ref: 'com.example.note#reply' } } } } } } }, { target_collection: NOTE })
await server.api('POST', '/admin/scripts', { id: 'job.run:greet', body: 'function handle()\n  return "Hello " .. (job.input.name or "you")\nend\n' })
await server.api('POST', '/admin/scripts', { id: 'job.run:recount', body: 'function handle()\n  job.progress({ at = 1 })\n  return 1\nend\n', description: 'Counts again' })
for (let n = 0; n < 40; n += 1) await alice.put(NOTE, `note${n}`, { text: n % 5 ? `A note with number ${n} and a few words more` : `<b>bold</b> ${'long '.repeat(40)}`, n, ...(n % 3 ? {} : { tags: ['x', 'y'] }) })
await until('indexed', async () => (await server.api('GET', '/admin/stats')).total_records === 40)
const key = (await server.api('POST', '/admin/api-keys', { name: 'x', permissions: (await server.api('GET', '/admin/permissions')).permissions.map((p) => p.key ?? p.id ?? p.permission) }).catch((e) => { console.error(e); return null }))
fs.writeFileSync('/tmp/wt/run7.live/info', JSON.stringify({ url: server.url, key, account: { handle: alice.handle, password: alice.password, did: alice.did }, plain: server.run('admin', 'create-key', '--unchecked', '--did', alice.did).match(/bva_\S+/)[0] }))
setInterval(() => {}, 1000)
