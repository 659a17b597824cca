import { api } from '../../api/client'
import { personOf } from '../../lib/person'
import { href, pathOf } from '../../lib/route'
import { namedSettings } from '../../pages/settings/named'
import { palette as t } from '../../texts'
import type { Named } from './palette'

/** Milliseconds for which what was read is offered again: the palette is opened several times in a row. */
const FRESH = 30_000

let last: { at: number; did: string; named: Named[] } | null = null

/** What the server lists and the user `did` may see, read at most twice a minute. */
export async function readNamed(
  did: string,
  can: (permission: string) => boolean,
  signal: AbortSignal,
): Promise<Named[]> {
  if (last?.did === did && Date.now() - last.at < FRESH) return last.named
  const named = [...(can('settings:manage') ? namedSettings : []), ...(await readLists(can, signal))]
  if (!signal.aborted) last = { at: Date.now(), did, named }
  return named
}

/** The clients, scripts, lexicons, users and plugins that the user may see. A list that can't be read is left out. */
async function readLists(can: (permission: string) => boolean, signal: AbortSignal): Promise<Named[]> {
  const list = async <T>(permission: string, read: () => Promise<T[]>, named: (thing: T) => Named) => {
    if (!can(permission)) return []
    return (await read().catch(() => [])).map(named)
  }
  const lists = await Promise.all([
    list(
      'api-clients:view',
      () => api.get('/admin/api-clients', {}, signal),
      ({ id, name, client_key, client_id_url }) => ({
        title: name,
        kind: t.client,
        to: href(pathOf('/clients/:id', { id })),
        words: `${client_key} ${client_id_url}`,
      }),
    ),
    list(
      'scripts:read',
      () => api.get('/admin/scripts/names', {}, signal),
      ({ id, description }) => ({
        title: id,
        kind: t.script,
        to: href(pathOf('/scripts/:id', { id })),
        words: description ?? '',
      }),
    ),
    list(
      'lexicons:read',
      () => api.get('/admin/lexicons', {}, signal),
      ({ id, lexicon_type }) => ({
        title: id,
        kind: t.lexicon,
        to: href(pathOf('/lexicons/:id', { id })),
        words: lexicon_type,
      }),
    ),
    list(
      'users:read',
      () => api.get('/admin/users', {}, signal),
      ({ id, did }) => ({
        // Read when it is shown: the handle may come later.
        get title() {
          return personOf(did)?.handle ?? did
        },
        kind: t.user,
        to: href(pathOf('/users/:id', { id })),
        words: did,
      }),
    ),
    list(
      'plugins:read',
      async () => (await api.get('/admin/plugins', {}, signal)).plugins,
      ({ id }) => ({ title: id, kind: t.plugin, to: href(pathOf('/plugins/:id', { id })), words: '' }),
    ),
  ])
  return lists.flat()
}
