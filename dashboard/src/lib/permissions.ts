import type { Permission } from '../api/models/access'

/** Permissions under the headings of the catalogue, in its order. */
export function byCategory(permissions: Permission[]): { category: string; permissions: Permission[] }[] {
  const groups = new Map<string, Permission[]>()
  for (const permission of permissions) {
    const group = groups.get(permission.category)
    if (group) group.push(permission)
    else groups.set(permission.category, [permission])
  }
  return [...groups].map(([category, list]) => ({ category, permissions: list }))
}

/** What has to be granted and revoked so that `before` becomes `after`. */
export function changes(before: string[], after: string[]): { grant: string[]; revoke: string[] } {
  return {
    grant: after.filter((key) => !before.includes(key)),
    revoke: before.filter((key) => !after.includes(key)),
  }
}
