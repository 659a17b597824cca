const KEY = 'belvedere.returns'

/** The page to open after a login: the present one, or the one from which a login that failed began. */
export function placeToReturn(hash: string, storage: Pick<Storage, 'getItem' | 'setItem'>): string {
  if (!hash.startsWith('#/login')) {
    storage.setItem(KEY, hash)
    return hash
  }
  return storage.getItem(KEY) ?? ''
}
