/** Milliseconds after the last key until what was typed is used: less than between two words. */
const PAUSE = 350

/** Calls `use` with the last value when typing has paused. */
export function debounced<T>(use: (value: T) => void): (value: T) => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  return (value) => {
    clearTimeout(timer)
    timer = setTimeout(() => use(value), PAUSE)
  }
}
