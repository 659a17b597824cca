/** The places of lexicons in a diagram. Widths follow from the number of letters: the diagram's font is as wide for each. */
import { namespaceOf, type Reference, type SchemaGraph, type SchemaLexicon } from './schema'

export interface Row {
  text: string
  type: string
  isTitle: boolean
  /** The place that references name: the group, or the group and the field. */
  at: string
}

export interface Box {
  id: string
  title: string
  /** Undefined for a lexicon that is not here. */
  kind: string | undefined
  rows: Row[]
  x: number
  y: number
  height: number
  isChosen: boolean
}

export interface Edge {
  from: string
  to: string
  kind: Reference['kind']
  /** From a side of a box to one of another. */
  start: [number, number]
  end: [number, number]
}

export interface Diagram {
  boxes: Box[]
  edges: Edge[]
  width: number
  height: number
}

export const BOX_WIDTH = 280
export const HEAD = 30
export const ROW = 20
const PADDING = 4
const GAP = 14
const BETWEEN = 96
const MARGIN = 12

/** How far below the top of a box the middle of a row is. */
export const rowCenter = (at: number) => HEAD + PADDING + (at + 0.5) * ROW

/** Rows of the chosen lexicon: more are in the list. */
const MAX_ROWS = 40

/** Letters of a title, of a row, and of a type in it, that fit into a box. */
const [TITLE_LETTERS, ROW_LETTERS, TYPE_LETTERS] = [26, 34, 16]

const METHODS = new Set(['query', 'procedure', 'subscription'])

export const byName = (a: string, b: string) => (a < b ? -1 : Number(a > b))

/** The end of a name is what tells it from others. */
export const endOf = (text: string, letters: number) => (text.length > letters ? `…${text.slice(1 - letters)}` : text)

/** A lexicon between those that refer to it and those that it refers to. */
export function around(graph: SchemaGraph, id: string): Diagram {
  const unique = (all: string[]) => [...new Set(all)].toSorted(byName)
  const incoming = unique(graph.references.filter(({ from, to }) => to === id && from !== id).map(({ from }) => from))
  const outgoing = unique(graph.references.filter(({ from, to }) => from === id && to !== id).map(({ to }) => to))
  const chosen = graph.lexicons.get(id)
  const rows = chosen ? rowsOf(chosen) : []
  const columns = [incoming, [id], outgoing]
    .filter((ids) => ids.length > 0)
    .map((ids) => ids.map((one) => ({ id: one, rows: one === id ? rows : [] })))
  const { boxes, width, height } = placed(graph, columns, { chosen: id })
  const center = boxes.find(({ isChosen }) => isChosen)
  if (!center) return { boxes, edges: [], width, height }
  const edges = [
    ...boxes.filter(({ x }) => x < center.x).map((box) => edge(graph, box, center, HEAD / 2)),
    ...boxes.filter(({ x }) => x > center.x).map((box) => edge(graph, center, box, rowAt(graph, center, box.id))),
  ]
  return { boxes, edges, width, height }
}

/** The lexicons of a namespace: methods, definitions and records beside each other, and below them those without references. */
export function ofNamespace(graph: SchemaGraph, namespace: string): Diagram {
  const all = [...graph.lexicons.values()].filter(({ id }) => namespaceOf(id) === namespace)
  const inside = new Set(all.map(({ id }) => id))
  const references = graph.references.filter(({ from, to }) => inside.has(from) && inside.has(to) && from !== to)
  const tied = new Set(references.flatMap(({ from, to }) => [from, to]))
  const idsOf = (fits: (kind: string) => boolean) =>
    all.filter(({ id, kind }) => tied.has(id) && fits(kind)).map(({ id }) => id)
  const methods = idsOf((kind) => METHODS.has(kind)).toSorted(byName)
  const definitions = idsOf((kind) => !METHODS.has(kind) && kind !== 'record')
  const records = idsOf((kind) => kind === 'record')
  const columns = ordered([methods, definitions, records], references)
    .filter((ids) => ids.length > 0)
    .map((ids) => ids.map((id) => ({ id, rows: [] })))
  const title = (id: string) => id.slice(namespace.length + 1)
  const upper = placed(graph, columns, { title })
  const single = [...inside].filter((id) => !tied.has(id)).toSorted(byName)
  const below = [0, 1, 2].map((column) => single.filter((_, at) => at % 3 === column).map((id) => ({ id, rows: [] })))
  const lower = placed(
    graph,
    below.filter((ids) => ids.length > 0),
    { title, isGrid: true },
  )
  const top = columns.length > 0 ? upper.height + GAP : 0
  const boxes = [...upper.boxes, ...lower.boxes.map((box) => ({ ...box, y: box.y + top }))]
  const boxOf = new Map(upper.boxes.map((box) => [box.id, box]))
  const seen = new Set<string>()
  const edges = references.flatMap(({ from, to }) => {
    const [a, b] = [boxOf.get(from), boxOf.get(to)]
    if (!a || !b || seen.has(`${from} ${to}`)) return []
    seen.add(`${from} ${to}`)
    return [edge(graph, a, b, HEAD / 2)]
  })
  const height = single.length > 0 ? top + lower.height : upper.height
  return { boxes, edges, width: Math.max(upper.width, lower.width), height }
}

/** Each column by the mean place of what refers to it or is referred to in the columns before, so that lines cross less. */
function ordered(columns: string[][], references: Reference[]): string[][] {
  const places = new Map<string, number>()
  return columns.map((ids) => {
    const placeOf = (id: string) => {
      const near = references.flatMap(({ from, to }) => (to === id ? [from] : from === id ? [to] : []))
      const known = near.flatMap((one) => places.get(one) ?? [])
      return known.length > 0 ? known.reduce((sum, one) => sum + one, 0) / known.length : Infinity
    }
    const mean = new Map(ids.map((id) => [id, placeOf(id)]))
    const sorted = ids.toSorted((a, b) => {
      const [x, y] = [mean.get(a) ?? Infinity, mean.get(b) ?? Infinity]
      return x === y ? byName(a, b) : x - y
    })
    sorted.forEach((id, at) => places.set(id, at / sorted.length))
    return sorted
  })
}

const columnAt = (column: number) => MARGIN + column * (BOX_WIDTH + BETWEEN)

interface Placing {
  chosen?: string
  title?: (id: string) => string
  /** Whether its columns begin at the top. Otherwise each is in the middle. */
  isGrid?: boolean
}

function placed(
  graph: SchemaGraph,
  columns: { id: string; rows: Row[] }[][],
  { chosen, title = (id) => id, isGrid = false }: Placing,
): Omit<Diagram, 'edges'> {
  const heightOf = (rows: Row[]) => HEAD + rows.length * ROW + (rows.length > 0 ? 2 * PADDING : 0)
  const heights = columns.map((boxes) => boxes.reduce((sum, { rows }) => sum + heightOf(rows) + GAP, -GAP))
  const height = Math.max(0, ...heights)
  const boxes = columns.flatMap((column, at) => {
    let y = MARGIN + (isGrid ? 0 : (height - (heights[at] ?? 0)) / 2)
    return column.map(({ id, rows }): Box => {
      const box = {
        id,
        title: endOf(title(id), TITLE_LETTERS),
        kind: graph.lexicons.get(id)?.kind,
        rows,
        x: columnAt(at),
        y,
        height: heightOf(rows),
        isChosen: id === chosen,
      }
      y += box.height + GAP
      return box
    })
  })
  return { boxes, width: columnAt(columns.length) - BETWEEN + MARGIN, height: height + 2 * MARGIN }
}

function rowsOf(lexicon: SchemaLexicon): Row[] {
  const all = lexicon.groups.flatMap(({ name: group, fields }): Row[] => [
    { text: group, type: fields.find(({ name }) => !name)?.type ?? '', isTitle: true, at: group },
    ...fields
      .filter(({ name }) => name)
      .map(({ name, type, isRequired }) => {
        const kind = endOf(type, TYPE_LETTERS)
        const text = endOf(name + (isRequired ? '' : '?'), ROW_LETTERS - 1 - kind.length)
        return { text, type: kind, isTitle: false, at: `${group}.${name}` }
      }),
  ])
  const left = all.length - MAX_ROWS
  return left > 1 ? [...all.slice(0, MAX_ROWS), { text: `… ${left} more`, type: '', isTitle: false, at: '' }] : all
}

/** How far below the top of the chosen box the first field stands that refers to a lexicon: its head if none is shown. */
function rowAt(graph: SchemaGraph, { id, rows }: Box, to: string): number {
  const at = graph.references.find((one) => one.from === id && one.to === to)?.at ?? ''
  const fits = (row: Row) => row.at === at || at.startsWith(`${row.at}.`)
  const place = rows.findLastIndex((row) => row.at !== '' && fits(row))
  return place < 0 ? HEAD / 2 : rowCenter(place)
}

function edge(graph: SchemaGraph, from: Box, to: Box, below: number): Edge {
  const kinds = graph.references.filter((one) => one.from === from.id && one.to === to.id).map(({ kind }) => kind)
  const kind = kinds.find((one) => one === 'ref') ?? kinds[0] ?? 'ref'
  const end: [number, number] = [to.x, to.y + HEAD / 2]
  // Within a column, and back to an earlier one, lines leave at the left and come from the left.
  const side = to.x > from.x ? BOX_WIDTH : 0
  const back = to.x < from.x ? BOX_WIDTH : 0
  return {
    from: from.id,
    to: to.id,
    kind,
    start: [from.x + side, from.y + (side > 0 ? below : HEAD / 2)],
    end: [end[0] + back, end[1]],
  }
}

/** The curve of an edge. */
export function curveOf({ start: [x, y], end: [u, v] }: Edge): string {
  if (x === u) return `M${x} ${y}C${x - 40} ${y} ${u - 40} ${v} ${u} ${v}`
  const bend = Math.max(40, Math.abs(u - x) / 2) * Math.sign(u - x)
  return `M${x} ${y}C${x + bend} ${y} ${u - bend} ${v} ${u} ${v}`
}
