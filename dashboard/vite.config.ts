import { svelte } from '@sveltejs/vite-plugin-svelte'
import { loadEnv } from 'vite'
import { defineConfig } from 'vitest/config'
import { server } from './build/proxy.ts'
import { texts } from './build/texts.ts'

/** Modules of Svelte's runtime that the first view does not use, but the shell and the pages. */
const LATER = [
  /svelte\/src\/internal\/client\/dom\/blocks\/(each|await|key|snippet|svelte-element|css-props)/,
  /svelte\/src\/internal\/client\/dom\/elements\/(bindings\/(?!shared)|attributes|class|style|actions|attachments)/,
  /svelte\/src\/internal\/shared\/attributes\.js|\/clsx\//,
]

/** What every view uses. A browser opens six connections, so that few files are faster than small ones. */
const BASE = /\/node_modules\/(svelte|esm-env)\/|\/src\/(lib\/(session|network)\.svelte|lib\/route\.ts|api\/error)/

/** What the login uses besides, and most pages. */
const FORM =
  /\/src\/(components\/(Form|Field|ErrorBox)\.svelte|lib\/login\b|texts\.ts\?of=(components-(Form|Field|ErrorBox)-|lib-login-))/

/** What the login, the shell and most pages use. */
const NOTES =
  /\/src\/(lib\/(message|format|toasts|confirm|clock|times)\b|styles\/parts|texts\.ts\?of=lib-(message|format|times)-)/

/** The table of pages: the first page is loaded before the shell can run. */
const PAGES = /\/src\/(pages\/(index|find)\.ts|lib\/(router\.svelte|unsaved)|texts\.ts\?of=shell)/

/** What most pages use, in one file; without what the first view uses. */
const PARTS = /\/src\/(components\/[^/]*$|lib\/(?!network|session|route|unsaved)|texts\.ts\?of=(components|lib)-)/

const isLater = (id: string) => LATER.some((test) => test.test(id))

export default defineConfig(({ mode }) => ({
  // Relative, so that the dashboard works below any path.
  base: './',
  plugins: [texts(), svelte()],
  // Plain SVG and small files become files too: the CSP allows no inline scripts or styles.
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // For build/finish.mjs.
    manifest: true,
    rolldownOptions: {
      treeshake: { moduleSideEffects: LATER.map((test) => ({ test, sideEffects: false })) },
      output: {
        // What the first view does not use of the runtime is loaded with the shell.
        codeSplitting: {
          includeDependenciesRecursively: false,
          groups: [
            { name: 'runtime', test: isLater },
            { name: 'base', test: BASE },
            { name: 'pages', test: PAGES },
            { name: 'form', test: FORM },
            { name: 'notes', test: NOTES },
            { name: 'parts', test: PARTS, minShareCount: 5 },
          ],
        },
      },
    },
  },
  server: server(loadEnv(mode, process.cwd(), 'BELVEDERE_')),
  // Modules are compiled when they are first imported, which takes long while the server is built beside it.
  test: { include: ['tests/**/*.test.ts'], environment: 'node', testTimeout: 60_000 },
}))
