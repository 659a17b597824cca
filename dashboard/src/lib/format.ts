const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 365 * 86_400],
  ['month', 30 * 86_400],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
]

const relativeFormat = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' })
const exactFormat = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'long' })
const countFormat = new Intl.NumberFormat('en')
const compactFormat = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })

/** “5 min. ago”, “in 2 days”. Times within five seconds are “now”: the clocks of two computers differ. */
export function relativeTime(time: Date, now: Date): string {
  const seconds = (time.getTime() - now.getTime()) / 1000
  if (Number.isNaN(seconds)) return '–'
  if (Math.abs(seconds) < 5) return relativeFormat.format(0, 'second')
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? ['second', 1]
  return relativeFormat.format(Math.trunc(seconds / size), unit)
}

/** The time to the second, in the browser's time zone, which it names. */
export function exactTime(time: Date): string {
  return Number.isNaN(time.getTime()) ? '–' : exactFormat.format(time)
}

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : countFormat.format(value)
}

/** “1.2M”, for places where the exact number does not fit. */
export function compact(value: number): string {
  return compactFormat.format(value)
}

/** “1 record”, “2 records”. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`
}

/** A duration in seconds as “350 ms”, “4.2 s”, “3 min 20 s”, “5 h 2 min”, “3 d 4 h”. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return '–'
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`
  if (seconds < 60) return `${Number(seconds.toFixed(1))} s`
  const whole = Math.round(seconds)
  const parts: [number, string, number, string] =
    whole < 3_600
      ? [Math.floor(whole / 60), 'min', whole % 60, 's']
      : whole < 86_400
        ? [Math.floor(whole / 3_600), 'h', Math.floor((whole % 3_600) / 60), 'min']
        : [Math.floor(whole / 86_400), 'd', Math.floor((whole % 86_400) / 3_600), 'h']
  return parts[2] === 0 ? `${parts[0]} ${parts[1]}` : `${parts[0]} ${parts[1]} ${parts[2]} ${parts[3]}`
}

/** A size in bytes as “12 kB”, “3.4 GB”. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–'
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB']
  let [size, unit] = [value, 0]
  while (size >= 1000 && unit < units.length - 1) [size, unit] = [size / 1000, unit + 1]
  return `${Number(size.toFixed(size < 10 && unit > 0 ? 1 : 0))} ${units[unit]}`
}

/** Both ends of a long identifier, which differ most: “did:plc:abcdef…wxyz”. */
export function shorten(text: string, length: number): string {
  if (text.length <= length) return text
  const tail = Math.min(6, Math.floor(length / 3))
  return `${text.slice(0, length - tail - 1)}…${text.slice(-tail)}`
}
