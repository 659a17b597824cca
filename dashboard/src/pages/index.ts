import type { Component } from 'svelte'
import { groups, titles } from '../texts'
import { access, instance, operations, scripting } from './more'

/** A page of the dashboard. */
export interface PageEntry {
  /** Its place, with the names of parameters: `/lexicons/:id`. Parameters are passed as properties of the component. */
  path: string
  title: string
  /** Where the sidebar shows it; without one, only links and the command palette lead to it. */
  group?: keyof typeof groups
  /** Permissions without which it has nothing to show. */
  needs?: string[]
  /** More words that find it in the command palette. */
  words?: string
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  load: () => Promise<{ default: Component<any> }>
}

/** All pages, in the order of the sidebar. */
export const pages: PageEntry[] = [
  { path: '/', title: titles.overview, group: 'home', load: () => import('./Overview.svelte') },
  ...scripting,
  ...operations,
  ...access,
  ...instance,
]
