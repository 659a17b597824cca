import { failedLogin } from '../lib/login'
import { PageError } from '../lib/message'
import { session } from '../lib/session.svelte'
import { attaching } from './attaching'
import { api } from './client'

const PLACE = '#/identity'

/** Logs in with the account to attach. After it this tab returns to the session of its user by `finishAttach`. */
export async function beginAttach(account: string): Promise<void> {
  const query = { handle: account, scope: 'atproto identity:*', redirect_uri: `${location.pathname}${PLACE}` }
  const { url } = await api.get('/auth/login', query)
  sessionStorage.setItem(attaching.key, session.me?.did ?? '')
  location.assign(url)
}

/** Returns to the session of the user who began, in a new page. Keeps why the login failed or was not accepted. */
export async function finishAttach(): Promise<void> {
  const original = sessionStorage.getItem(attaching.key) ?? ''
  sessionStorage.removeItem(attaching.key)
  const reason = failedLogin(location.hash)
  if (reason) {
    attaching.failure = new PageError(reason)
    location.replace(PLACE)
    return
  }
  try {
    await api.post('/api/setup/attach-auth/confirm', { original_did: original })
  } catch (error) {
    attaching.failure = error
    return
  }
  // The browser asked who is logged in while it loaded this page: the answer names the account to attach.
  location.reload()
  await new Promise<never>(() => undefined)
}
