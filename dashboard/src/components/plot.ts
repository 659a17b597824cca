import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { exactTime } from '../lib/format'
import { chart as t } from '../texts'
import { afterKey, axisTime, axisWidth, COLOURS, isSparse, lastOf, type ChartData, type Chosen } from './chart'

/** Height of the drawing in pixels, without the legend. */
const HEIGHT = 200

/** The class of a line of the period before. The legend has its values beside those of the own line. */
const BEFORE = 'before'

/** Pixels below which a drag is a click. */
const MIN_DRAG = 5

/** What a chart that can be zoomed calls. */
export interface Zoom {
  /** A range was selected, in Unix seconds. */
  onselect: (from: number, until: number) => void
  /** Escape was pressed while nothing was selected. */
  onback: () => void
  /** The keyboard has moved to a time, which is described. */
  onpoint: (text: string) => void
}

export interface Plot {
  update(data: ChartData): void
  remove(): void
}

/** Draws lines into an element, as wide as it is, in the colours of the page. */
export function plot(element: HTMLElement, first: ChartData, zoom: Zoom | null): Plot {
  let data = first
  let chart: uPlot | null = null
  let chosen: Chosen | null = null

  const valuesOf = ({ times, series }: ChartData) =>
    [times, ...series.flatMap(({ values, previous }) => [values, ...(previous ? [previous] : [])])] as uPlot.AlignedData
  /** Two sets of data with the same lines differ in their values only. */
  const shapeOf = ({ series }: ChartData) =>
    JSON.stringify(series.map(({ label, previous, values }) => [label, Boolean(previous), isSparse(values)]))

  function lines(colour: (name: string) => string): uPlot.Series[] {
    return data.series.flatMap(({ values, previous }, at) => {
      const line = { stroke: colour(COLOURS[at % COLOURS.length] ?? '--accent'), width: 1.5 }
      const points = (values: (number | null)[]) => ({ show: isSparse(values), size: 4 })
      const value = (_: uPlot, __: number, ___: number, index: number | null) => legend(at, index)
      const own = { ...line, label: data.series[at]?.label ?? '', points: points(values), value }
      if (!previous) return [own]
      return [own, { ...line, class: BEFORE, dash: [4, 4], width: 1, alpha: 0.7, points: points(previous) }]
    })
  }

  /** The values of a line at the pointer; without the pointer the last ones. */
  function legend(line: number, index: number | null): string {
    const { values, previous } = data.series[line] ?? { values: [] }
    const text = (values: (number | null)[]) => {
      const value = index === null ? lastOf(values) : (values[index] ?? null)
      return value === null ? '–' : data.format(value)
    }
    return previous ? `${text(values)} (${t.before} ${text(previous)})` : text(values)
  }

  /** The dashed line is shown and hidden with its own one. */
  function toggle(drawn: uPlot, index: number | null, { show }: uPlot.Series) {
    if (index === null || show === undefined || drawn.series[index + 1]?.class !== BEFORE) return
    drawn.setSeries(index + 1, { show })
  }

  function draw() {
    chart?.destroy()
    chosen = null
    const style = getComputedStyle(element)
    const colour = (name: string) => style.getPropertyValue(name).trim()
    const axis = {
      stroke: colour('--muted'),
      grid: { stroke: colour('--border'), width: 1 },
      ticks: { stroke: colour('--border'), width: 1 },
    }
    const { series } = data
    chart = new uPlot(
      {
        width: Math.max(element.clientWidth, 100),
        height: HEIGHT,
        series: [
          {
            label: t.time,
            value: (_, time) => (time === null ? t.latest : exactTime(new Date(time * 1000))),
          },
          ...lines(colour),
        ],
        axes: [
          { ...axis, values: (_, times, __, ___, step) => times.map((time) => axisTime(time, step)) },
          {
            ...axis,
            size: (_, labels) => axisWidth(labels),
            values: (_, values) => values.map((value) => data.format(value)),
          },
        ],
        scales: { y: { range: (_, __, max) => [0, Math.max(max * 1.08, data.atLeast)] } },
        legend: { show: series.length > 1 || series[0]?.label !== '' || Boolean(series[0]?.previous), live: true },
        ...(zoom ? { cursor: { drag: { x: true, y: false, setScale: false } } } : {}),
        hooks: { setSeries: [toggle], setSelect: zoom ? [select] : [] },
      },
      valuesOf(data),
      element,
    )
  }

  function select(drawn: uPlot) {
    const { left, width } = drawn.select
    if (width < MIN_DRAG) return
    clear()
    zoom?.onselect(drawn.posToVal(left, 'x'), drawn.posToVal(left + width, 'x'))
  }

  function clear() {
    chosen = null
    chart?.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
    chart?.setCursor({ left: -10, top: -10 })
  }

  function onkeydown(event: KeyboardEvent) {
    if (!chart || !zoom || event.target !== element || event.ctrlKey || event.altKey || event.metaKey) return
    if (event.key === 'Escape') {
      if (chosen) clear()
      else zoom.onback()
      return
    }
    const { times } = data
    if (event.key === 'Enter' && chosen && chosen.anchor !== chosen.at) {
      const [from, until] = [Math.min(chosen.anchor, chosen.at), Math.max(chosen.anchor, chosen.at)]
      event.preventDefault()
      clear()
      zoom.onselect(times[from] ?? 0, times[until] ?? 0)
      return
    }
    const next = afterKey(event.key, event.shiftKey, chosen, times.length)
    if (!next) return
    event.preventDefault()
    chosen = next
    const left = (at: number) => chart?.valToPos(times[at] ?? 0, 'x') ?? 0
    const [from, to] = [left(next.anchor), left(next.at)]
    chart.setSelect(
      { left: Math.min(from, to), top: 0, width: Math.abs(to - from), height: chart.over.clientHeight },
      false,
    )
    chart.setCursor({ left: to, top: HEIGHT / 2 })
    const shown = data.series.map(({ label, values }) => {
      const value = values[next.at]
      return `${label} ${value === null || value === undefined ? '–' : data.format(value)}`
    })
    zoom.onpoint(`${exactTime(new Date((times[next.at] ?? 0) * 1000))}: ${shown.join('; ')}`)
  }

  draw()
  if (zoom) {
    element.tabIndex = 0
    element.addEventListener('keydown', onkeydown)
  }
  const resized = new ResizeObserver(() => {
    if (chart && chart.width !== element.clientWidth)
      chart.setSize({ width: Math.max(element.clientWidth, 100), height: HEIGHT })
  })
  resized.observe(element)
  const scheme = matchMedia('(prefers-color-scheme: dark)')
  scheme.addEventListener('change', draw)

  return {
    update(next) {
      // A selection that has begun stays, and the next data comes in seconds.
      if (chosen || (chart?.select.width ?? 0) > 0) return
      const isSame = shapeOf(next) === shapeOf(data)
      data = next
      if (isSame) chart?.setData(valuesOf(data))
      else draw()
    },
    remove() {
      resized.disconnect()
      scheme.removeEventListener('change', draw)
      element.removeEventListener('keydown', onkeydown)
      chart?.destroy()
    },
  }
}
