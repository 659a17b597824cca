export type Line = { kind: 'same' | 'added' | 'removed'; text: string }
export type Part = Line | { kind: 'folded'; count: number }

/** Lines times lines that are compared: four million steps take a browser some milliseconds. */
const MAX_WORK = 4_000_000

/** Unchanged lines that are shown around each change. */
const AROUND = 3

/** The lines of two texts, marked by whether they are in both. Null when the texts are too long to compare. */
export function difference(before: string, after: string): Line[] | null {
  const [old, now] = [before.split('\n'), after.split('\n')]
  let start = 0
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1
  let end = 0
  while (
    end < old.length - start &&
    end < now.length - start &&
    old[old.length - 1 - end] === now[now.length - 1 - end]
  )
    end += 1
  const [left, right] = [old.slice(start, old.length - end), now.slice(start, now.length - end)]
  if (left.length * right.length > MAX_WORK) return null
  const same = (text: string): Line => ({ kind: 'same', text })
  return [...now.slice(0, start).map(same), ...middle(left, right), ...now.slice(now.length - end).map(same)]
}

/** The difference by the longest common subsequence. */
function middle(left: string[], right: string[]): Line[] {
  const width = right.length + 1
  // The length of the longest common subsequence of what follows each pair of lines.
  const lengths = new Uint32Array((left.length + 1) * width)
  const at = (i: number, j: number) => lengths[i * width + j] ?? 0
  for (let i = left.length - 1; i >= 0; i--)
    for (let j = right.length - 1; j >= 0; j--)
      lengths[i * width + j] = left[i] === right[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))

  const found: Line[] = []
  let [i, j] = [0, 0]
  while (i < left.length || j < right.length) {
    const [old, now] = [left[i], right[j]]
    if (old !== undefined && old === now) {
      found.push({ kind: 'same', text: old })
      i += 1
      j += 1
    } else if (old !== undefined && (now === undefined || at(i + 1, j) >= at(i, j + 1))) {
      found.push({ kind: 'removed', text: old })
      i += 1
    } else if (now !== undefined) {
      found.push({ kind: 'added', text: now })
      j += 1
    }
  }
  return found
}

/** Replaces long runs of unchanged lines by their number. */
export function folded(lines: Line[]): Part[] {
  const isNear = lines.map((_, at) => lines.slice(Math.max(at - AROUND, 0), at + AROUND + 1).some(isChange))
  const parts: Part[] = []
  for (const [at, line] of lines.entries()) {
    const last = parts.at(-1)
    if (isNear[at]) parts.push(line)
    else if (last?.kind === 'folded') last.count += 1
    else parts.push({ kind: 'folded', count: 1 })
  }
  return parts
}

const isChange = (line: Line) => line.kind !== 'same'
