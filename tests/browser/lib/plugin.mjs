// Plugins that dev/plugins.sh built.
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const TARGET = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL('../../../target', import.meta.url))

/** The two files of a plugin. */
export function builtPlugin(id) {
  const folder = path.join(TARGET, 'plugins', id)
  return { manifest: path.join(folder, 'manifest.json'), module: path.join(folder, 'plugin.wasm') }
}
