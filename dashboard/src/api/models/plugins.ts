/** Plugins. */
import type { Get, Post, Schema } from '../models'

export type PluginPermission = Schema<'PluginPermission'>
export type Risk = PluginPermission['risk']
export type RequiredSecret = Schema<'RequiredSecret'>
export type Plugin = Schema<'Plugin'>
export type PluginPreview = Post<'/admin/plugins/preview'>
export type CataloguePlugin = Get<'/admin/plugins/official'>['plugins'][number]
export type PluginChanges = Post<'/admin/plugins/{id}/reload'>['changes']

/** The body of the 400 that asks for consent. */
export interface ConsentRequired {
  error: 'ConsentRequired'
  message: string
  permissions: PluginPermission[]
  changes?: PluginChanges
}
