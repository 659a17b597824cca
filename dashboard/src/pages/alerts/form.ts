import type { Alert, AlertMetric } from '../../api/models/operations'
import { bytes, count, duration } from '../../lib/format'

/** The fields of an alert. Numbers are texts, as they are typed. */
export interface AlertFields {
  name: string
  metric: string
  label: string
  condition: 'above' | 'below'
  threshold: string
  minutes: string
  target: 'log' | 'webhook'
  url: string
}

export const NEW: AlertFields = {
  name: '',
  metric: 'error_rate',
  label: '',
  condition: 'above',
  threshold: '5',
  minutes: '5',
  target: 'log',
  url: '',
}

/** The units in which a threshold is typed. People don't count bytes. */
const GIGABYTE = 1e9
const scaleOf = (unit: string | undefined) => (unit === 'bytes' ? GIGABYTE : 1)

export const unitOf = (unit: string | undefined) => (unit === 'bytes' ? 'GB' : (unit ?? ''))

export function fieldsOf(alert: Alert, unit: string | undefined): AlertFields {
  const { name, metric, label, condition, threshold, minutes, target, url } = alert
  return {
    name,
    metric,
    label: label ?? '',
    condition,
    threshold: String(threshold / scaleOf(unit)),
    minutes: String(minutes),
    target,
    url: url ?? '',
  }
}

const isNumber = (text: string) => text.trim() !== '' && Number.isFinite(Number(text)) && Number(text) >= 0

export function isReady({ name, threshold, minutes, target, url }: AlertFields): boolean {
  const hasTarget = target === 'log' || url.trim() !== ''
  return name.trim() !== '' && isNumber(threshold) && isNumber(minutes) && hasTarget
}

/** The body of a request. */
export function bodyOf(fields: AlertFields, metric: AlertMetric | undefined) {
  const { condition, target } = fields
  return {
    name: fields.name.trim(),
    metric: fields.metric as Alert['metric'],
    label: (metric?.by && fields.label.trim()) || null,
    condition,
    threshold: Number(fields.threshold) * scaleOf(metric?.unit),
    minutes: Math.round(Number(fields.minutes)),
    target,
    url: target === 'webhook' ? fields.url.trim() : null,
  }
}

/** A value with its unit. */
export function valueText(value: number | null, unit: string | undefined): string {
  if (value === null) return '–'
  if (unit === 'bytes') return bytes(value)
  if (unit === 'milliseconds') return duration(value / 1000)
  if (unit === 'seconds') return duration(value)
  if (unit === 'percent') return `${Number(value.toFixed(2))} %`
  return `${count(Number(value.toFixed(2)))} ${unit ?? ''}`.trim()
}
