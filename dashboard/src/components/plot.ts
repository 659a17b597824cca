import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { exactTime } from '../lib/format'
import { chart as t } from '../texts'
import { axisTime, axisWidth, COLOURS, isSparse, type Series } from './chart'

/** Height of the drawing in pixels, without the legend. */
const HEIGHT = 200

interface Data {
  times: number[]
  series: Series[]
  format: (value: number) => string
  /** The smallest end of the y axis, so that nothing looks like something. */
  atLeast: number
}

/** Draws lines into an element, as wide as it is, in the colours of the page. Returns what removes them. */
export function plot(element: HTMLElement, { times, series, format, atLeast }: Data): () => void {
  let chart: uPlot | null = null

  function draw() {
    chart?.destroy()
    const style = getComputedStyle(element)
    const colour = (name: string) => style.getPropertyValue(name).trim()
    const axis = {
      stroke: colour('--muted'),
      grid: { stroke: colour('--border'), width: 1 },
      ticks: { stroke: colour('--border'), width: 1 },
    }
    chart = new uPlot(
      {
        width: Math.max(element.clientWidth, 100),
        height: HEIGHT,
        series: [
          { label: t.time, value: (_, time) => (time === null ? '' : exactTime(new Date(time * 1000))) },
          ...series.map(({ label, values }, at) => ({
            label,
            stroke: colour(COLOURS[at % COLOURS.length] ?? '--accent'),
            width: 1.5,
            points: { show: isSparse(values), size: 4 },
            value: (_: uPlot, value: number | null) => (value === null ? '–' : format(value)),
          })),
        ],
        axes: [
          { ...axis, values: (_, times, __, ___, step) => times.map((time) => axisTime(time, step)) },
          { ...axis, size: (_, labels) => axisWidth(labels), values: (_, values) => values.map(format) },
        ],
        scales: { y: { range: (_, __, max) => [0, Math.max(max * 1.08, atLeast)] } },
        legend: { show: series.length > 1 || series[0]?.label !== '', live: true },
      },
      [times, ...series.map(({ values }) => values)],
      element,
    )
  }

  draw()
  const resized = new ResizeObserver(() => {
    if (chart && chart.width !== element.clientWidth)
      chart.setSize({ width: Math.max(element.clientWidth, 100), height: HEIGHT })
  })
  resized.observe(element)
  const scheme = matchMedia('(prefers-color-scheme: dark)')
  scheme.addEventListener('change', draw)

  return () => {
    resized.disconnect()
    scheme.removeEventListener('change', draw)
    chart?.destroy()
  }
}
