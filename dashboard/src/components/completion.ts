/** A name that is offered while typing, such as `db.query`. */
export interface Suggestion {
  label: string
  detail?: string
  info?: string
  type?: string
}

/** Letters of a word from which on names are offered without being asked for. */
const MIN_LETTERS = 2

const KEYWORDS =
  'and break do else elseif end false for function goto if in local nil not or repeat return then true until while'

/** Lua's own functions that scripts may call, by table. */
const LIBRARY: Record<string, string> = {
  '': 'assert error getmetatable ipairs next pairs pcall print rawequal rawget rawlen rawset select setmetatable tonumber tostring type xpcall',
  string: 'byte char find format gmatch gsub len lower match rep reverse sub upper pack packsize unpack',
  table: 'concat insert move pack remove sort unpack',
  math: 'abs ceil cos deg exp floor fmod huge log max maxinteger min mininteger modf pi rad random sin sqrt tan tointeger type ult',
  utf8: 'char charpattern codepoint codes len offset',
  coroutine: 'close create isyieldable resume running status wrap yield',
  os: 'clock date difftime time',
}

/** What Lua itself offers. */
const ofLua: Suggestion[] = [
  ...KEYWORDS.split(' ').map((label) => ({ label, type: 'keyword' })),
  ...Object.entries(LIBRARY).flatMap(([table, names]) => [
    ...(table ? [{ label: table, type: 'namespace' }] : []),
    ...names.split(' ').map((name) => ({ label: table ? `${table}.${name}` : name, type: 'function' })),
  ]),
]

/** Places where Lua binds names: `local a, b`, `function f`, `function (a, b)` and `for k, v in`. */
const BINDINGS = [
  /\blocal\s+(?!function\b)([^\n=]+)/g,
  /\bfunction\s+([\w.:]+)/g,
  /\bfunction\b[^(\n]*\(([^)\n]*)\)/g,
  /\bfor\s+([^\n=]+?)\s*(?:=|\bin\b)/g,
]

/** The names that a script itself binds. */
function localsOf(text: string): Suggestion[] {
  const lists = BINDINGS.flatMap((binding) => [...text.matchAll(binding)].map((match) => match[1] ?? ''))
  const names = lists.flatMap((list) => list.split(',')).map((name) => name.replace(/<\w*>/, '').trim())
  return [...new Set(names)]
    .filter((name) => /^[a-z_][\w.:]*$/i.test(name))
    .map((label) => ({ label, type: 'variable' }))
}

/**
 * The names that begin as `word` does. Without `isAsked`, the user's own request, a word of one letter has none. A name that
 * is already complete is not offered, so that nothing opens over a finished word.
 */
export function completionsOf(word: string, text: string, known: Suggestion[], isAsked: boolean): Suggestion[] {
  const isMember = /[.:]\w*$/.test(word)
  if (!isAsked && !isMember && word.length < MIN_LETTERS) return []
  const begin = word.toLowerCase()
  const offered = new Map([...ofLua, ...localsOf(text), ...known].map((one) => [one.label, one]))
  return [...offered.values()].filter(({ label }) => label !== word && label.toLowerCase().startsWith(begin))
}
