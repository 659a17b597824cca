export type Format = 'csv' | 'jsonl'

const [QUOTE, BREAK] = [0x22, 0x0a]

/** Counts the records of a file as its bytes arrive. A table has a head, and line breaks within quotes. */
export function counter(format: Format): { readonly records: number; add: (bytes: Uint8Array) => void } {
  let lines = 0
  let isQuoted = false
  return {
    get records() {
      return Math.max(0, lines - (format === 'csv' ? 1 : 0))
    },
    add(bytes) {
      for (const byte of bytes) {
        if (byte === QUOTE) isQuoted = !isQuoted
        else if (byte === BREAK && !(format === 'csv' && isQuoted)) lines += 1
      }
    },
  }
}
