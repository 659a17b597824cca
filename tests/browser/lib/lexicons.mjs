// Lexicons of the stories. Stories share a network, so one that backfills has a collection of its own.

export const NOTE = 'com.example.note'
export const LIST = 'com.example.listNotes'

export const record = (id, properties = { text: { type: 'string', maxLength: 3000 }, n: { type: 'integer' } }) => ({
  lexicon: 1,
  id,
  defs: { main: { type: 'record', key: 'any', record: { type: 'object', properties } } },
})

export const query = (id) => ({
  lexicon: 1,
  id,
  defs: { main: { type: 'query', output: { encoding: 'application/json' } } },
})
