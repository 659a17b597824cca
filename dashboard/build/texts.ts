import { readFile } from 'node:fs/promises'
import type { Plugin } from 'vite'

/**
 * Gives every file its own copy of `src/texts.ts`, of which the bundler keeps what the file uses.
 *
 * All texts are in one file so that they are read and translated in one place. As an ordinary module that file would be
 * in the first chunk as a whole, with the texts of pages that are not open.
 */
export function texts(): Plugin {
  return {
    name: 'texts-by-page',
    enforce: 'pre',
    async resolveId(source, importer) {
      if (!importer || !/(^|\/)texts(\.ts)?$/.test(source)) return null
      const found = await this.resolve(source, importer, { skipSelf: true })
      if (!found?.id.endsWith('/src/texts.ts')) return found
      const file = importer.split('?')[0]?.split('/src/')[1] ?? ''
      // The shell's files are loaded together, and share a copy.
      const of = /^(components\/shell\/|pages\/index)/.test(file) ? 'shell' : file.replace(/\W/g, '-')
      return `${found.id}?of=${of}`
    },
    async load(id) {
      const [file, query] = id.split('?')
      if (!file?.endsWith('/src/texts.ts') || !query?.startsWith('of=')) return null
      return { code: await readFile(file, 'utf8'), moduleType: 'ts', moduleSideEffects: false }
    },
  }
}
