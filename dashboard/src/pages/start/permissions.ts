import { api } from '../../api/client'

/** The permissions of a new key: those that the user has. Asks the server for all where it is not known which these are. */
export async function keyPermissions(own: string[] | undefined): Promise<string[]> {
  if (own) return own
  const { permissions } = await api.get('/admin/permissions')
  return permissions.map(({ key }) => key)
}
