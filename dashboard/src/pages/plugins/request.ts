import type { Schema } from '../../api/models'

/** Where a plugin comes from. */
export type Origin = { url: string; sha256: string } | { manifest: Blob; module: Blob }

/** The body with which a plugin is looked at, or installed when `accepted` says which permissions it gets. */
export function requestOf(origin: Origin, accepted?: string[]): FormData | Schema<'PluginOrigin'> {
  if ('url' in origin) {
    return {
      url: origin.url,
      ...(origin.sha256 ? { sha256: origin.sha256 } : {}),
      ...(accepted ? { accepted_capabilities: accepted } : {}),
    }
  }
  const form = new FormData()
  form.set('manifest', origin.manifest)
  form.set('module', origin.module)
  if (accepted) form.set('accepted_capabilities', JSON.stringify(accepted))
  return form
}
