import { session } from '../lib/session.svelte'
import { ATTACHING } from './attaching'
import { api } from './client'

/** Logs in with the account to attach. After it this tab returns to the session of its user by `finishAttach`. */
export async function beginAttach(account: string): Promise<void> {
  const query = {
    handle: account,
    scope: 'atproto identity:*',
    redirect_uri: `${location.pathname}#/identity`,
  }
  const { url } = await api.get<{ url: string }>('/auth/login', query)
  sessionStorage.setItem(ATTACHING, session.me?.did ?? '')
  location.assign(url)
}

/** Returns to the session of the user who began. Fails when the login did not succeed, or was another account's. */
export async function finishAttach(): Promise<void> {
  const original = sessionStorage.getItem(ATTACHING)
  sessionStorage.removeItem(ATTACHING)
  await api.post('/api/setup/attach-auth/confirm', { original_did: original })
}
