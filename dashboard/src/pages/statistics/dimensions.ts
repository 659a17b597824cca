import { href, pathOf } from '../../lib/route'
import type { Unit } from './metrics'

/** A chart of one metric for all names, or of several metrics for one name or for all names together. */
export interface ChartOf {
  metrics: string[]
  unit: Unit
  /** All names are one line. */
  isCombined?: boolean
}

export interface Dimension {
  /** The charts with a line for each name. */
  all: ChartOf[]
  /** The charts of one name. */
  one: ChartOf[]
  /** The counters whose largest names are listed. */
  lists: string[]
  /** The page of a name. */
  page: (name: string) => string
  /** The permission for that page. */
  needs: string
}

const rate = (...metrics: string[]): ChartOf => ({ metrics, unit: 'rate' })
const amount = (...metrics: string[]): ChartOf => ({ metrics, unit: 'count' })
const millis = (...metrics: string[]): ChartOf => ({ metrics, unit: 'milliseconds' })

export const DIMENSIONS = {
  method: {
    all: [
      rate('requests'),
      { ...millis('request_p50_ms', 'request_p99_ms'), isCombined: true },
      amount('request_errors'),
      millis('request_p99_ms'),
    ],
    one: [rate('requests'), amount('request_errors'), millis('request_p50_ms', 'request_p99_ms')],
    lists: ['requests', 'request_errors'],
    page: (id) => href(pathOf('/lexicons/:id', { id })),
    needs: 'lexicons:read',
  },
  client: {
    all: [rate('client_requests'), amount('client_rate_limited')],
    one: [rate('client_requests'), amount('client_rate_limited')],
    lists: ['client_requests', 'client_rate_limited'],
    page: (id) => href(pathOf('/clients/:id', { id })),
    needs: 'api-clients:view',
  },
  script: {
    all: [rate('script_runs'), amount('script_errors'), amount('script_instructions'), millis('script_ms')],
    one: [rate('script_runs'), amount('script_errors'), amount('script_instructions'), millis('script_ms')],
    lists: ['script_runs', 'script_errors'],
    page: (id) => href(pathOf('/scripts/:id', { id })),
    needs: 'scripts:read',
  },
  collection: {
    all: [rate('records_written'), rate('records_deleted')],
    one: [rate('records_written', 'records_deleted')],
    lists: ['records_written', 'records_deleted'],
    page: (collection) => href('/records', { collection }),
    needs: 'records:read',
  },
} satisfies Record<string, Dimension>

export type By = keyof typeof DIMENSIONS

/** The charts of a name. `query`: the window that they show, as parameters of the page. */
export function chartsOf(by: By, name: string, query: Record<string, string> = {}): string {
  return href('/statistics', { ...query, by, name })
}
