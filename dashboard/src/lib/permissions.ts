import type { Catalogue, Permission } from '../api/models/access'

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

/** The template that has exactly these permissions. Those that the catalogue does not list, of features that are off, don't count. */
export function templateOf(catalogue: Catalogue, permissions: string[]): Catalogue['templates'][number] | undefined {
  const listed = (keys: string[]) => catalogue.permissions.filter(({ key }) => keys.includes(key)).map(({ key }) => key)
  const own = listed(permissions).join(' ')
  return catalogue.templates.find((template) => listed(template.permissions).join(' ') === own)
}

/** What has to be granted and revoked so that `before` becomes `after`. */
export function changes(before: string[], after: string[]): { grant: string[]; revoke: string[] } {
  return {
    grant: after.filter((key) => !before.includes(key)),
    revoke: before.filter((key) => !after.includes(key)),
  }
}

/** The permissions with or without one. Those that the catalogue does not list stay. */
export function toggled(permissions: string[], key: string, isOn: boolean): string[] {
  const others = permissions.filter((permission) => permission !== key)
  return isOn ? [...others, key] : others
}

/**
 * The permissions with those of a template in place of what is shown. Those that the catalogue does not list and those that
 * may not be changed stay as they are.
 */
export function replaced(
  catalogue: Catalogue,
  before: string[],
  template: string[],
  allowed: (permission: string) => boolean,
): string[] {
  const shown = new Set(catalogue.permissions.map(({ key }) => key))
  const mayChange = (key: string) => shown.has(key) && allowed(key)
  return [...before.filter((key) => !mayChange(key)), ...template.filter(mayChange)]
}
