/** Users, keys, API clients and linked repos. */
import type { Get, Post, Schema } from '../models'

export type ApiKey = Schema<'ApiKey'>
export type User = Schema<'User'>
/** An account with what the instance knows of it. */
export type Person = Get<'/admin/accounts'>['accounts'][number]
export type UserSession = Get<'/admin/users/{id}/sessions'>['sessions'][number]
export type Catalogue = Get<'/admin/permissions'>
export type Permission = Catalogue['permissions'][number]
export type ApiClient = Schema<'ApiClient'>
export type MethodCalls = Get<'/admin/api-clients/{id}/usage'>['methods'][number]
export type NewApiClient = Post<'/admin/api-clients'>
export type ClientKey = Schema<'ClientKey'>
export type KeyUse = Schema<'KeyUse'>
export type LinkedRepo = Schema<'LinkedRepo'>
export type Invite = Get<'/admin/linked-repos/{id}/invites'>['invites'][number]
