/** Reads data again every few seconds as long as `isNeeded`, which may use reactive state, and the page is visible. */
export function repeat(read: () => unknown, milliseconds: number, isNeeded: () => boolean = () => true) {
  $effect(() => {
    if (!isNeeded()) return
    const timer = setInterval(() => {
      if (!document.hidden) void read()
    }, milliseconds)
    return () => clearInterval(timer)
  })
}
