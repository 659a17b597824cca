/** The value of a `datetime-local` field for a time, in the zone of the browser; empty for none. */
export function fieldOf(time: string | undefined): string {
  const date = new Date(time ?? '')
  if (Number.isNaN(date.getTime())) return ''
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

/** The time that a `datetime-local` field names; null for none. */
export function timeOf(field: string): string | null {
  const date = new Date(field)
  return Number.isNaN(date.getTime()) ? null : date.toISOString()
}
