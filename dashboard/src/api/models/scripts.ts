/** Scripts: what they are, how they are checked and tried, and what they cost. */
import type { Get, Post, Schema } from '../models'

export type Script = Schema<'Script'>
export type ScriptStats = Schema<'ScriptStats'>
export type ScriptVariable = Get<'/admin/script-variables'>[number]
export type ScriptDiagnostic = Schema<'Diagnostic'>
export type ScriptCheck = Post<'/admin/scripts/check'>
export type ScriptTypes = Get<'/admin/scripts/types'>
export type DryRun = Schema<'DryRun'>
export type DryRunEvent = Schema<'DryRunEvent'>
export type RunProfile = Schema<'RunProfile'>
export type ProfilePlace = Schema<'ProfilePlace'>
export type Revision = Schema<'ScriptRevision'>
export type FullRevision = Get<'/admin/scripts/{id}/revisions/{revision}'>
export type Rollout = Get<'/admin/scripts/{id}/rollout'>
export type Recording = Get<'/admin/scripts/{id}/recording'>
export type ReplayReport = Post<'/admin/scripts/{id}/replay'>
export type DeletedScript = Get<'/admin/scripts/deleted'>['scripts'][number]
