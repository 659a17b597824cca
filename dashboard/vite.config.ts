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
const BASE =
  /\/node_modules\/(svelte|esm-env)\/|\/src\/(lib\/(session|network)\.svelte|lib\/route\.ts|api\/error)|vite.preload-helper/

/** What the login uses besides, and the shell or most pages too. */
const VIEW =
  /\/src\/(components\/(Form|Field|ErrorBox)\.svelte|lib\/(login|message|format|toasts|confirm|clock|times)\b|texts\.ts\?of=(components-(Form|Field|ErrorBox)-|lib-(login|message|format|times)-)|mark\.svg|styles\/parts|api\/paths)/

/** The table of pages, which needs nothing but the base: it begins to load the page while the rest is still on its way. */
const PAGES = /\/src\/(pages\/(index|find)\.ts|lib\/(router\.svelte|unsaved)|texts\.ts\?of=shell)/

/** What most pages use. */
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
            { name: 'view', test: (id: string) => isLater(id) || VIEW.test(id) },
            { name: 'base', test: BASE },
            { name: 'pages', test: PAGES },
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
