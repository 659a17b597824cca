import { createSubscriber } from 'svelte/reactivity'

/** Milliseconds between updates of relative times. */
const TICK = 10_000

const subscribe = createSubscriber((update) => {
  const timer = setInterval(update, TICK)
  return () => clearInterval(timer)
})

/** The present time, which moves on every few seconds while something shows it. */
export const clock = {
  get now(): Date {
    subscribe()
    return new Date()
  },
}
