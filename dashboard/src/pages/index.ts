import type { Component } from 'svelte'
import type { Config } from '../api/models'
import type { PathOf } from '../api/paths'
import { groups, titles } from '../texts'

/** A page of the dashboard. */
export interface PageEntry {
  /** Its place, with the names of parameters: `/lexicons/:id`. Parameters are passed as properties of the component. */
  path: string
  title: string
  /** Where the sidebar shows it; without one, only links and the command palette lead to it. */
  group?: keyof typeof groups
  /** The page that stands for it in the sidebar, and leads to it. */
  under?: string
  /** Permissions without which it has nothing to show. */
  needs?: string[]
  /** The feature of the server that it shows: while that is off, nothing leads to it. */
  feature?: keyof Config['features']
  /** More words that find it in the command palette. */
  words?: string
  /** What it reads first, without parameters: the browser asks for it while it loads the script. */
  reads?: PathOf<'get'>
  /** The parameters of the path are its properties. */
  load: () => Promise<{ default: Component<any> }>
}

/** All pages, in the order of the sidebar. The first whose path matches is shown. */
// prettier-ignore
export const pages: PageEntry[] = [
  { path: '/', title: titles.overview, group: 'home', words: 'home status stream', reads: '/admin/overview', load: () => import('./Overview.svelte') },
  { path: '/start', title: titles.start, group: 'home', words: 'setup checks doctor', load: () => import('./Start.svelte') },

  { path: '/records', title: titles.records, group: 'data', needs: ['records:read'], words: 'browse labels', load: () => import('./Records.svelte') },
  { path: '/records/why', title: titles.why, needs: ['records:read'], words: 'missing record look up', load: () => import('./RecordWhy.svelte') },
  { path: '/collections', title: titles.collections, group: 'data', needs: ['records:read'], load: () => import('./Collections.svelte') },
  { path: '/lexicons', title: titles.lexicons, group: 'data', needs: ['lexicons:read'], words: 'schemas', reads: '/admin/lexicons', load: () => import('./Lexicons.svelte') },
  { path: '/lexicons/new', title: titles.lexiconNew, needs: ['lexicons:create'], words: 'upload network', load: () => import('./LexiconNew.svelte') },
  { path: '/lexicons/schema', title: titles.lexiconSchema, needs: ['lexicons:read'], words: 'diagram references fields types', load: () => import('./LexiconSchema.svelte') },
  { path: '/lexicons/:id', title: titles.lexicon, needs: ['lexicons:read'], load: () => import('./Lexicon.svelte') },

  { path: '/apps', title: titles.apps, group: 'data', needs: ['lexicons:read', 'scripts:read', 'stats:read'], words: 'namespaces usage callers cost', load: () => import('./Apps.svelte') },
  { path: '/apps/:app', title: titles.app, needs: ['lexicons:read', 'scripts:read', 'stats:read'], load: () => import('./App.svelte') },

  { path: '/spaces', title: titles.spaces, group: 'data', needs: ['spaces:read'], feature: 'spaces', load: () => import('./Spaces.svelte') },
  { path: '/spaces/:uri', title: titles.space, needs: ['spaces:read'], load: () => import('./Space.svelte') },
  { path: '/inspections', title: titles.inspections, group: 'data', needs: ['spaces:read'], feature: 'spaces', load: () => import('./Inspections.svelte') },

  { path: '/events', title: titles.events, group: 'operations', needs: ['events:read'], words: 'audit errors live', load: () => import('./Events.svelte') },
  { path: '/statistics', title: titles.statistics, group: 'operations', needs: ['stats:read'], words: 'charts metrics alerts', load: () => import('./Statistics.svelte') },

  { path: '/backfill', title: titles.backfill, group: 'operations', needs: ['backfill:read'], words: 'history catch up import plan', load: () => import('./Backfills.svelte') },
  { path: '/backfill/:id', title: titles.backfillJob, needs: ['backfill:read'], load: () => import('./BackfillJob.svelte') },
  { path: '/moderation', title: titles.moderation, group: 'operations', needs: ['moderation:read'], load: () => import('./Moderation.svelte') },
  { path: '/labelers', title: titles.labelers, group: 'operations', needs: ['labelers:read'], words: 'labels', reads: '/admin/labelers', load: () => import('./Labelers.svelte') },
  { path: '/database', title: titles.database, group: 'operations', needs: ['stats:read'], words: 'size indexes tables', load: () => import('./Database.svelte') },

  { path: '/scripts', title: titles.scripts, group: 'scripting', needs: ['scripts:read'], words: 'lua triggers code', reads: '/admin/scripts', load: () => import('./Scripts.svelte') },
  { path: '/scripts/new', title: titles.scriptNew, needs: ['scripts:manage'], words: 'lua create add', load: () => import('./ScriptNew.svelte') },
  { path: '/scripts/:id', title: titles.script, needs: ['scripts:read'], load: () => import('./Script.svelte') },
  { path: '/script-variables', title: titles.scriptVariables, group: 'scripting', needs: ['script-variables:read'], words: 'env secrets environment', reads: '/admin/script-variables', load: () => import('./ScriptVariables.svelte') },
  { path: '/dead-letters', title: titles.deadLetters, group: 'scripting', needs: ['dead-letters:read'], words: 'failed errors retry', load: () => import('./DeadLetters.svelte') },
  { path: '/dead-letters/:id', title: titles.deadLetter, needs: ['dead-letters:read'], load: () => import('./DeadLetter.svelte') },
  { path: '/sql', title: titles.sql, group: 'scripting', needs: ['scripts:manage'], words: 'console query select explain', load: () => import('./Sql.svelte') },
  { path: '/jobs', title: titles.jobs, group: 'scripting', needs: ['jobs:read'], words: 'background work start run', load: () => import('./Jobs.svelte') },
  { path: '/jobs/:id', title: titles.job, needs: ['jobs:read'], load: () => import('./Job.svelte') },

  { path: '/clients', title: titles.clients, group: 'access', needs: ['api-clients:view'], words: 'applications rate limit bucket keys', reads: '/admin/api-clients', load: () => import('./Clients.svelte') },
  { path: '/clients/new', title: titles.clientNew, needs: ['api-clients:create'], words: 'application register create', load: () => import('./ClientNew.svelte') },
  { path: '/clients/:id', title: titles.client, needs: ['api-clients:view'], load: () => import('./Client.svelte') },
  { path: '/users', title: titles.users, group: 'access', needs: ['users:read'], words: 'permissions templates admins', reads: '/admin/users', load: () => import('./Users.svelte') },
  { path: '/users/:id', title: titles.user, needs: ['users:read'], load: () => import('./User.svelte') },
  { path: '/api-keys', title: titles.apiKeys, group: 'access', needs: ['api-keys:read'], words: 'tokens secret', load: () => import('./ApiKeys.svelte') },
  { path: '/linked-repos', title: titles.linkedRepos, group: 'access', needs: ['linked-repos:read'], words: 'grants invites accounts', load: () => import('./LinkedRepos.svelte') },
  { path: '/linked-repos/:id', title: titles.linkedRepo, needs: ['linked-repos:read'], load: () => import('./LinkedRepo.svelte') },

  { path: '/plugins', title: titles.plugins, group: 'instance', needs: ['plugins:read'], words: 'extensions wasm catalogue', reads: '/admin/plugins', load: () => import('./Plugins.svelte') },
  { path: '/plugins/new', title: titles.pluginNew, needs: ['plugins:create'], words: 'install upload', load: () => import('./PluginNew.svelte') },
  { path: '/plugins/:id', title: titles.plugin, needs: ['plugins:read'], load: () => import('./Plugin.svelte') },
  { path: '/settings', title: titles.settings, group: 'instance', needs: ['settings:manage'], words: 'logo terms retention limit', reads: '/admin/settings', load: () => import('./Settings.svelte') },
  { path: '/identity', title: titles.identity, under: '/settings', needs: ['settings:manage'], words: 'did plc services verification keys', load: () => import('./Identity.svelte') },
  { path: '/domains', title: titles.domains, under: '/settings', needs: ['settings:manage'], words: 'origins hosts primary', reads: '/admin/domains', load: () => import('./Domains.svelte') },
  { path: '/network-rules', title: titles.networkRules, under: '/settings', needs: ['settings:manage'], words: 'proxy forwarding allowlist', load: () => import('./NetworkRules.svelte') },
  { path: '/instance-keys', title: titles.instanceKeys, under: '/settings', needs: ['settings:manage'], words: 'oauth rotate', load: () => import('./InstanceKeys.svelte') },
  { path: '/features', title: titles.features, under: '/settings', needs: ['settings:manage'], words: 'flags switch', load: () => import('./Features.svelte') },
  { path: '/compare', title: titles.compare, under: '/settings', needs: ['lexicons:read', 'scripts:read', 'settings:manage'], words: 'diff export instances staging', load: () => import('./Compare.svelte') },

  { path: '/account', title: titles.account, words: 'sessions linked accounts permissions', load: () => import('./Account.svelte') },
]
