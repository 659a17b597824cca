/** Permissioned spaces and inspections of their records. */
import type { Get, Schema } from '../models'

export type Space = Schema<'Space'>
export type SpaceSummary = Schema<'SpaceSummary'>
export type SpaceMember = Schema<'SpaceMember'>
export type SpaceInvite = Schema<'SpaceInvite'>
export type SpaceRegistration = Schema<'SpaceRegistration'>
export type Inspection = Schema<'SpaceInspection'>
export type InspectedRecord = Get<'/admin/accounts/{did}/space-records'>['records'][number]
