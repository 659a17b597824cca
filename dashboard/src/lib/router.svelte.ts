import { href, parsePlace, type Place } from './route'

let place = $state.raw<Place>(parsePlace(location.hash))

/** What follows the path alone does not run again when parameters change. */
const path = $derived(place.path)

addEventListener('hashchange', () => {
  place = parsePlace(location.hash)
})

/** Where the user is. Reading it in markup or an effect follows the URL. */
export const router = {
  get path() {
    return path
  },
  get query() {
    return place.query
  },
  /** Goes to another place, with an entry in the history. */
  go(path: string, query: Parameters<typeof href>[1] = {}) {
    location.hash = href(path, query)
  },
  /** Changes parameters of the present place, such as filters, without an entry in the history. An empty value removes one. */
  setQuery(changes: Parameters<typeof href>[1]) {
    const to = href(place.path, { ...place.query, ...changes })
    if (to === location.hash) return
    history.replaceState(null, '', to)
    place = parsePlace(to)
  },
}
