import { session } from '../lib/session.svelte'
import { api } from './client'
import { ApiError } from './error'
import { attaching } from './attaching'

/** Reads who is logged in and what the server is. Fails when the server does not answer. */
export async function loadSession(): Promise<void> {
  // A login with the account to attach ended in this tab: its user continues as themselves.
  if (sessionStorage.getItem(attaching.key) !== null) await (await import('./attach')).finishAttach()
  const [config, me] = await Promise.all([
    api.get('/config').catch(() => null),
    api.get('/auth/me').catch((error: unknown) => {
      if (error instanceof ApiError && error.status === 401) return null
      throw error
    }),
  ])
  session.begin(config, me?.is_admin ? me : null)
  // A login that failed ended at this place.
  if (me?.is_admin && location.hash.startsWith('#/login')) location.replace('#/')
}

/** Ends the session in this browser. */
export async function logOut(): Promise<void> {
  await api.post('/auth/logout')
  const { forgetDrafts } = await import('../lib/drafts')
  forgetDrafts(sessionStorage)
  session.begin(null, null)
}
