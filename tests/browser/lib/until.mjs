import { setTimeout as pause } from 'node:timers/promises'

/** How long a test waits for something that happens in another process: machines of tests may be busy. */
const PATIENCE = 60_000

/** Calls `probe` until it returns something true, and returns that. Throws what it reported last. */
export async function until(what, probe) {
  const deadline = Date.now() + PATIENCE
  let last
  while (Date.now() < deadline) {
    try {
      const found = await probe()
      if (found) return found
    } catch (error) {
      last = error
    }
    await pause(50)
  }
  throw new Error(`waited in vain until ${what}`, { cause: last })
}
