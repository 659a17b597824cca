import type { Suggestion } from './completion'

/** A table that a statement can read. */
export interface ReadableTable {
  name: string
  columns: string[]
  /** Whether it belongs to the scripts. */
  own: boolean
}

/** Letters of a word from which on names are offered without being asked for. */
const MIN_LETTERS = 2

const KEYWORDS =
  'SELECT FROM WHERE AND OR NOT IN IS NULL LIKE BETWEEN EXISTS JOIN LEFT INNER CROSS ON USING GROUP BY HAVING ORDER ASC DESC NULLS FIRST LAST LIMIT OFFSET AS DISTINCT UNION ALL EXCEPT INTERSECT WITH RECURSIVE CASE WHEN THEN ELSE END CAST TRUE FALSE VALUES OVER PARTITION'
const FUNCTIONS = 'abs avg coalesce count length lower max min nullif replace round substr sum trim upper'

const ofSql: Suggestion[] = [
  ...FUNCTIONS.split(' ').map((label) => ({ label, type: 'function' })),
  ...KEYWORDS.split(' ').map((label) => ({ label, type: 'keyword' })),
]

/** Words that may follow a table and are no name for it. */
const NO_ALIAS = new Set(KEYWORDS.toLowerCase().split(' '))

/** The tables that a statement names, by the names that it gives them. Those of subqueries count too. */
function namedIn(sql: string, tables: ReadableTable[]): Map<string, ReadableTable> {
  const found = new Map<string, ReadableTable>()
  for (const [, table = '', alias] of sql.matchAll(
    /(?:\bfrom|\bjoin|,)\s+([a-z_]\w*)(?:\s+(?:as\s+)?([a-z_]\w*))?/gi,
  )) {
    const known = tables.find(({ name }) => name === table.toLowerCase())
    if (!known) continue
    found.set(table.toLowerCase(), known)
    if (alias && !NO_ALIAS.has(alias.toLowerCase())) found.set(alias.toLowerCase(), known)
  }
  return found
}

/**
 * The names that begin as the word before `at` does: columns of the tables that the statement names, tables, and then SQL's
 * own. After a dot only the columns of that table, after FROM and JOIN only tables. The word is the text that a name replaces.
 */
export function sqlCompletionsOf(
  sql: string,
  at: number,
  tables: ReadableTable[],
  isAsked: boolean,
): { word: string; found: Suggestion[] } {
  const before = sql.slice(0, at)
  const word = /[a-z_][\w.]*$/i.exec(before)?.[0] ?? ''
  const [qualifier, member] = word.includes('.') ? word.split('.', 2) : [null, word]
  if (!isAsked && qualifier === null && word.length < MIN_LETTERS) return { word, found: [] }

  const named = namedIn(sql, tables)
  const begin = (member ?? '').toLowerCase()
  const fitting = (all: Suggestion[]) =>
    all.filter(({ label }) => label.toLowerCase().startsWith(begin) && label.toLowerCase() !== begin)
  if (qualifier !== null) {
    const table = named.get((qualifier ?? '').toLowerCase())
    return { word: member ?? '', found: fitting(columnsOf(table ? [table] : [])) }
  }
  const names = tables.map(({ name, own, columns }) => ({
    label: name,
    type: own ? 'class' : 'interface',
    detail: ` ${columns.length}`,
  }))
  if (/\b(from|join)\s+$/i.test(before.slice(0, before.length - word.length))) return { word, found: fitting(names) }
  const columns = columnsOf(named.size > 0 ? [...new Set(named.values())] : tables)
  const aliases = [...named.keys()].filter((name) => !tables.some((table) => table.name === name))
  return {
    word,
    found: fitting([...columns, ...aliases.map((label) => ({ label, type: 'variable' })), ...names, ...ofSql]),
  }
}

/** The columns of tables, each once, with the tables that have it. */
function columnsOf(tables: ReadableTable[]): Suggestion[] {
  const owners = new Map<string, string[]>()
  for (const { name, columns } of tables)
    for (const column of columns) owners.set(column, [...(owners.get(column) ?? []), name])
  return [...owners].map(([label, names]) => ({ label, detail: ` ${names.join(', ')}`, type: 'property' }))
}

/** The statement in a string of Lua that is the first argument of `db.raw` or `db.page`, if `at` is in one. */
export function statementAt(lua: string, at: number): { sql: string; at: number } | null {
  const opened = /\bdb\.(?:raw|page)\s*\(\s*(\[\[|"|')((?:(?!\1|\]\])[^])*)$/.exec(lua.slice(0, at))
  if (!opened) return null
  const [, quote, begun = ''] = opened
  const end = lua.indexOf(quote === '[[' ? ']]' : (quote ?? ''), at)
  return { sql: begun + lua.slice(at, end < 0 ? at : end), at: begun.length }
}
