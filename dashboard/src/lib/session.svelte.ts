import type { Config, Me } from '../api/models'
import type { PageEntry } from '../pages'

type State = 'loading' | 'in' | 'out'

let state = $state<State>('loading')
let me = $state.raw<Me | null>(null)
let isEnded = $state(false)
let config = $state.raw<Config | null>(null)

/** Who is logged in, and what they may do. */
export const session = {
  get state() {
    return state
  },
  get me() {
    return me
  },
  /** What the server says about itself to everyone. */
  get config() {
    return config
  },
  /** The address of the logo if it is at this origin. Pages load nothing from elsewhere, and their CSP forbids it. */
  get logo(): string | null {
    const url = config?.logo_url
    return url?.startsWith(`${location.origin}/`) ? url : null
  },
  /** Whether a session ended while the page was open, without a log out. */
  get isEnded() {
    return isEnded
  },
  /** Whether the user has all of these permissions. A server that does not say which ones they have answers 403 later. */
  can(...needed: string[]): boolean {
    if (!me) return false
    const { permissions, is_super } = me
    return is_super === true || !permissions || needed.every((permission) => permissions.includes(permission))
  },
  /** Whether a page leads somewhere: the user has its permissions, and the server its feature. */
  offers({ needs = [], feature }: Pick<PageEntry, 'needs' | 'feature'>) {
    return this.can(...needs) && (!feature || config?.features[feature])
  },
  begin(known: Config | null, user: Me | null) {
    config = known ?? config
    // The first login claimed the server.
    if (user && config) config = { ...config, has_users: true }
    me = user
    state = user ? 'in' : 'out'
    isEnded = false
  },
  /**
   * The server no longer accepts the session. The login appears in place of the page, and returns to it; a page with a form
   * or with unsaved changes (`data-unsaved`) stays behind a dialog, so that what was entered is not lost.
   */
  ended() {
    if (state !== 'in') return
    isEnded = true
    if (!document.querySelector('form.form, [data-editor], [data-unsaved]')) this.leave()
  },
  /** Shows the login in place of the page. */
  leave() {
    me = null
    state = 'out'
  },
}
