import { groups, palette as t } from '../../texts'
import { href, pathOf } from '../../lib/route'
import { spaceOf, spacePage } from '../../lib/spaces'
import { typed } from '../../lib/typed'
import { whyOf } from '../../lib/uri'
import type { PageEntry } from '../../pages'

export interface Entry {
  title: string
  /** What it is, shown on the right. */
  kind: string
  /** Its place. */
  to: string
  /** What it does instead of leading to its place. */
  run?: () => Promise<void>
}

/** Something that the server lists and the user may see. */
export interface Named extends Entry {
  /** What it is found by besides its title. */
  words: string
}

/** Named things that are shown for a text. */
const MAX_NAMED = 20

const NSID = /^[a-zA-Z][a-zA-Z0-9-]*(\.[a-zA-Z0-9-]+){2,}$/

/**
 * What the command palette offers for a text: places for identifiers, pages and actions that have all its words, and then things with
 * such a name. Without a text these are too many. The last entry searches records for the text.
 */
export function entriesOf(
  text: string,
  pages: PageEntry[],
  actions: Named[] = [],
  named: Named[] = [],
  searchesRecords = false,
): Entry[] {
  const sought = typed(text)
  const words = sought.toLowerCase().split(/\s+/)
  const has = (searched: string) => words.every((word) => searched.toLowerCase().includes(word))
  const found = pages
    .map((page) => ({ page, kind: page.group ? groups[page.group] : '' }))
    .filter(({ page, kind }) => has(`${page.title} ${page.words ?? ''} ${kind}`))
    .map(({ page, kind }) => ({ title: page.title, kind, to: href(page.path) }))
  const matching = (things: Named[]) => things.filter(({ title, kind, words }) => has(`${title} ${kind} ${words}`))
  const offered: Entry[] = [
    ...identifiers(sought),
    ...found,
    ...matching(actions),
    ...(sought ? matching(named).slice(0, MAX_NAMED) : []),
    ...(sought && searchesRecords
      ? [{ title: t.searchRecords(sought), kind: '', to: href('/records', { text: sought }) }]
      : []),
  ]
  // An NSID that was pasted may also be the name of a lexicon.
  return offered.filter(({ to }, at) => offered.findIndex((other) => other.to === to) === at)
}

function identifiers(text: string): Entry[] {
  const space = spacePage(text)
  if (space) return [{ title: t.openSpace(spaceOf(text) ?? text), kind: '', to: space }]
  const why = whyOf(text)
  if (why) return [{ title: t.openRecord(text), kind: '', to: why }]
  if (/^did:[a-z]+:/.test(text)) return [{ title: t.eventsOf(text), kind: '', to: href('/events', { subject: text }) }]
  if (!NSID.test(text)) return []
  return [
    { title: t.openCollection(text), kind: '', to: href('/records', { collection: text }) },
    { title: t.openLexicon(text), kind: '', to: href(pathOf('/lexicons/:id', { id: text })) },
  ]
}
