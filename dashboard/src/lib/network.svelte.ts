/** Milliseconds before the first attempt to reach the server again; each later one waits twice as long. */
const FIRST_WAIT = 500

/** The longest wait, in milliseconds: a restarted server is noticed soon. */
const MAX_WAIT = 5_000

let lost = $state(false)
let returns = $state(0)

const returned = new Set<() => void>()

/** Whether the server answers: the one state of the page. While it does not, a banner says so and the page tries again. */
export const network = {
  get isLost() {
    return lost
  },
  /** How often the server came back. Data that is read in an effect is read again when this changes. */
  get returns() {
    return returns
  },
  /** Called when a request had no answer. */
  lost() {
    if (lost) return
    lost = true
    void reconnect()
  },
  /** Called when something failed for which a lost server may be the reason. Resolves with whether it answers. */
  async check(): Promise<boolean> {
    if (!lost && !(await answers())) network.lost()
    return !lost
  },
  /** Calls a function whenever the server came back, until the returned one is called. */
  onReturn(call: () => void) {
    returned.add(call)
    return () => returned.delete(call)
  },
}

addEventListener('offline', () => network.lost())

async function reconnect() {
  for (let wait = FIRST_WAIT; lost; wait = Math.min(wait * 2, MAX_WAIT)) {
    await new Promise((resolve) => {
      setTimeout(resolve, wait)
      addEventListener('online', resolve, { once: true })
    })
    if (await answers()) {
      lost = false
      returns += 1
      for (const call of returned) call()
    }
  }
}

async function answers(): Promise<boolean> {
  const answer = await fetch(new URL('../livez', document.baseURI), { cache: 'no-store' }).catch(() => null)
  return answer?.ok === true
}
