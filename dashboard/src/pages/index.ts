import type { Component } from 'svelte'
import { groups, titles } from '../texts'

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
  /** The parameters of the path are its properties. */
  load: () => Promise<{ default: Component<any> }>
}

/** All pages, in the order of the sidebar. The first whose path matches is shown. */
// prettier-ignore
export const pages: PageEntry[] = [
  { path: '/', title: titles.overview, group: 'home', words: 'home status stream', load: () => import('./Overview.svelte') },
  { path: '/start', title: titles.start, group: 'home', words: 'setup checks doctor', load: () => import('./Start.svelte') },

  { path: '/records', title: titles.records, group: 'data', needs: ['records:read'], words: 'browse labels', load: () => import('./Records.svelte') },
  { path: '/records/why', title: titles.why, needs: ['records:read'], words: 'missing record look up', load: () => import('./RecordWhy.svelte') },
  { path: '/collections', title: titles.collections, group: 'data', needs: ['records:read'], load: () => import('./Collections.svelte') },
  { path: '/lexicons', title: titles.lexicons, group: 'data', needs: ['lexicons:read'], words: 'schemas', load: () => import('./Lexicons.svelte') },
  { path: '/lexicons/new', title: titles.lexiconNew, needs: ['lexicons:create'], words: 'upload network', load: () => import('./LexiconNew.svelte') },
  { path: '/lexicons/:id', title: titles.lexicon, needs: ['lexicons:read'], load: () => import('./Lexicon.svelte') },

  { path: '/events', title: titles.events, group: 'operations', needs: ['events:read'], words: 'audit errors live', load: () => import('./Events.svelte') },
  { path: '/statistics', title: titles.statistics, group: 'operations', needs: ['stats:read'], words: 'charts metrics apps latency', load: () => import('./Statistics.svelte') },

  { path: '/account', title: titles.account, words: 'sessions linked accounts permissions', load: () => import('./Account.svelte') },
]
