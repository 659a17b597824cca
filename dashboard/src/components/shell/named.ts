import { api } from '../../api/client'
import { href, pathOf } from '../../lib/route'
import { palette as t } from '../../texts'
import type { Named } from './palette'

/** The clients, scripts, lexicons, users and plugins that the user may see. A list that can't be read is left out. */
export async function readNamed(can: (permission: string) => boolean, signal: AbortSignal): Promise<Named[]> {
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
      () => api.get('/admin/scripts', {}, signal),
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
      ({ id, did }) => ({ title: did, kind: t.user, to: href(pathOf('/users/:id', { id })), words: '' }),
    ),
    list(
      'plugins:read',
      async () => (await api.get('/admin/plugins', {}, signal)).plugins,
      ({ id }) => ({ title: id, kind: t.plugin, to: href(pathOf('/plugins/:id', { id })), words: '' }),
    ),
  ])
  return lists.flat()
}
