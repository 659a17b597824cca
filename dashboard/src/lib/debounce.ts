/** Milliseconds after the last key until what was typed is used: less than between two words. */
const PAUSE = 350

export interface Debounced<T> {
  (value: T): void
  /** Forgets the last value, for example when its page is left. */
  cancel: () => void
}

/** Calls `use` with the last value when typing has paused. */
export function debounced<T>(use: (value: T) => void): Debounced<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const cancel = () => clearTimeout(timer)
  const call = (value: T) => {
    cancel()
    timer = setTimeout(() => use(value), PAUSE)
  }
  return Object.assign(call, { cancel })
}
