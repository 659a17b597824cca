/** Whether a file is of a kind that an input accepts: `.json` or `image/png`, in a list with commas. */
export function accepts(accept: string, { name, type }: Pick<File, 'name' | 'type'>): boolean {
  const kinds = accept.split(',').map((kind) => kind.trim().toLowerCase())
  return kinds.some((kind) => (kind.startsWith('.') ? name.toLowerCase().endsWith(kind) : type.toLowerCase() === kind))
}
