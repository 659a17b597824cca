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
}

const NSID = /^[a-zA-Z][a-zA-Z0-9-]*(\.[a-zA-Z0-9-]+){2,}$/

/** What the command palette offers for a text: pages whose title has all its words, and places for identifiers. */
export function entriesOf(text: string, pages: PageEntry[]): Entry[] {
  const sought = typed(text)
  const words = sought.toLowerCase().split(/\s+/)
  const found = pages
    .filter(({ title, words: more = '', group }) => {
      const searched = `${title} ${more} ${group ? groups[group] : ''}`.toLowerCase()
      return words.every((word) => searched.includes(word))
    })
    .map((page) => ({ title: page.title, kind: page.group ? groups[page.group] : '', to: href(page.path) }))
  return [...identifiers(sought), ...found]
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
