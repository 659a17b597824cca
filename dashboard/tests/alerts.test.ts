import { expect, test } from 'vitest'
import type { Alert, AlertMetric } from '../src/api/models/operations'
import { bodyOf, fieldsOf, isReady, NEW, unitOf, valueText } from '../src/pages/alerts/form'

const metric = (unit: string, by: string | null = null) => ({ unit, by }) as AlertMetric

test('bytes are typed as gigabytes', () => {
  const alert = {
    ...NEW,
    metric: 'disk_free_bytes',
    label: null,
    threshold: 2.5e9,
    minutes: 3,
    url: null,
  } as unknown as Alert
  const fields = fieldsOf(alert, 'bytes')
  expect([fields.threshold, fields.minutes, unitOf('bytes'), unitOf('seconds')]).toEqual(['2.5', '3', 'GB', 'seconds'])
  expect(bodyOf(fields, metric('bytes')).threshold).toBe(2.5e9)
})

test('what the target and the metric do not have is not sent', () => {
  const fields = { ...NEW, label: 'x', url: 'https://hooks.example' }
  expect(bodyOf(fields, metric('percent', 'method'))).toMatchObject({ label: 'x', url: null })
  expect(bodyOf({ ...fields, target: 'webhook' }, metric('seconds'))).toMatchObject({
    label: null,
    url: 'https://hooks.example',
  })
})

test('a form is ready with a name, numbers and an address', () => {
  const ready = { ...NEW, name: 'Errors' }
  expect(isReady(ready)).toBe(true)
  for (const change of [
    { name: ' ' },
    { threshold: '' },
    { threshold: '-1' },
    { minutes: 'x' },
    { target: 'webhook' as const },
  ])
    expect(isReady({ ...ready, ...change })).toBe(false)
})

test('values have their unit', () => {
  expect(valueText(null, 'percent')).toBe('–')
  expect(valueText(12.3456, 'percent')).toBe('12.35 %')
  expect(valueText(1500, 'milliseconds')).toBe('1.5 s')
  expect(valueText(3.2e9, 'bytes')).toBe('3.2 GB')
  expect(valueText(4, 'letters')).toBe('4 letters')
})
