import { bytes } from '../../lib/format'
import { logo as t } from '../../texts'

/** What the server accepts. */
const MAX_BYTES = 5 << 20

/** What is wrong with a file, null when it can be sent. */
export function checkLogo(file: Pick<File, 'type' | 'size'>): string | null {
  if (!file.type.startsWith('image/')) return t.noImage
  if (file.size === 0) return t.emptyFile
  return file.size > MAX_BYTES ? t.tooLarge(bytes(file.size)) : null
}
