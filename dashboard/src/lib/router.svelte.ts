import { href, parsePlace, type Place } from './route'
import { isUnsaved } from './unsaved'

let place = $state.raw<Place>(parsePlace(location.hash))

/** What follows the path alone does not run again when parameters change. */
const path = $derived(place.path)

/** Entries of the history are numbered, so that a step that was refused can be undone in its direction. */
const numberOf = () => (history.state as { entry?: number } | null)?.entry
let entry = numberOf() ?? 0
const mark = () => history.replaceState({ entry }, '')
mark()

/** The step that comes next is not asked about: it returns, or was agreed to. */
let isDecided = false

addEventListener('hashchange', () => {
  const hash = location.hash
  const to = parsePlace(hash)
  // A link makes a new entry.
  const step = (numberOf() ?? entry + 1) - entry
  const isNew = numberOf() === undefined
  if (!isDecided && to.path !== place.path && step !== 0 && isUnsaved()) {
    isDecided = true
    history.go(-step)
    const leave = () => {
      isDecided = true
      if (isNew) location.hash = hash
      else history.go(step)
    }
    // The question is loaded when it is asked. Without a server it can't be, and the page stays.
    void import('./leave').then(({ askToLeave }) => askToLeave(leave)).catch(() => undefined)
    return
  }
  isDecided = false
  entry += step
  mark()
  if (href(to.path, to.query) !== href(place.path, place.query)) place = to
})

/** Where the user is. Reading it in markup or an effect follows the URL. */
export const router = {
  get path() {
    return path
  },
  get query() {
    return place.query
  },
  /** Goes to another place, with an entry in the history. It follows an action of the user, which decided: nothing is asked. */
  go(path: string, query: Parameters<typeof href>[1] = {}) {
    const to = href(path, query)
    if (to === location.hash) return
    isDecided = true
    location.hash = to
  },
  /** Changes parameters of the present place, such as filters, without an entry in the history. An empty value removes one. */
  setQuery(changes: Parameters<typeof href>[1]) {
    const to = href(place.path, { ...place.query, ...changes })
    if (to === location.hash) return
    history.replaceState(history.state, '', to)
    place = parsePlace(to)
  },
}
