// Plugins that dev/plugins.sh built.
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const TARGET = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL('../../../target', import.meta.url))

/** The package of a first-party plugin. */
export function builtPlugin(id) {
  return path.join(TARGET, 'plugins', `${id}.zip`)
}
