/**
 * The collection that a method is probably about: the one whose name is in the method's, such as `com.example.note` for
 * `com.example.listNotes`, or else the only one beside it. Null when none or several fit.
 */
export function targetOf(method: string, collections: string[]): string | null {
  const namespace = method.slice(0, method.lastIndexOf('.') + 1)
  const name = method.slice(namespace.length).toLowerCase()
  const beside = collections.filter((id) => id.startsWith(namespace) && !id.slice(namespace.length).includes('.'))
  const named = beside.filter((id) => name.includes(stem(id.slice(namespace.length).toLowerCase())))
  // Of `note` and `noteList`, `getNoteList` is about the longer one.
  const longest = named.toSorted((a, b) => b.length - a.length)
  if (longest[0] && longest[0].length !== longest[1]?.length) return longest[0]
  return named.length === 0 && beside.length === 1 ? beside[0]! : null
}

/** A name as it also begins its plural: `entry` and `entries`. */
const stem = (name: string) => (name.endsWith('y') ? name.slice(0, -1) : name)
