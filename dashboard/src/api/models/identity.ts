/** The instance's own identity, its domains and services, and settings. */
import type { Get, Schema } from '../models'

export type Domain = Schema<'Domain'>
export type Mode = Schema<'IdentityMode'>
/** Null in answers before one was chosen. */
export type ServiceIdentity = NonNullable<Get<'/admin/service-identity'>>
export type SetupStatus = Get<'/api/setup/status'>
export type Account = Get<'/api/setup/resolve'>[number]
export type VerificationMethod = Schema<'VerificationMethod'>
export type AccessMode = 'all' | 'allowlist' | 'disabled'
export type ServiceEntry = Schema<'ServiceEntry'>
export type Setting = Schema<'Setting'>
export type ForwardingRules = Schema<'ForwardingRules'>
export type FeatureFlag = Get<'/admin/feature-flags'>[number]
