import type { Component } from 'svelte'

/** What the dashboard shows a user who is logged in, and one who is not. Each is loaded when it is needed. */
export const views = {
  in: () => import('./components/shell/Shell.svelte'),
  out: () => import('./pages/Login.svelte'),
} satisfies Record<string, () => Promise<{ default: Component }>>
