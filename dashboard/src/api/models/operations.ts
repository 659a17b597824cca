/** Backfills, jobs, dead letters, labelers and the database. */
import type { Get, Post, Schema } from '../models'

export type Backfill = Schema<'Backfill'>
export type BackfillPlan = Get<'/admin/backfill/plan'>
export type BackfillHost = Get<'/admin/backfill/{id}/pds-summary'>['pds_endpoints'][number]
export type BackfillRepo = Get<'/admin/backfill/{id}/repos'>['repos'][number]
export type BackfillFailures = Get<'/admin/backfill/{id}/errors'>
export type BackfillFailure = BackfillFailures['errors'][number]
export type Job = Schema<'Job'>
export type AppSummary = Schema<'AppSummary'>
export type AppDetails = Get<'/admin/apps/{app}'>
export type InstanceExport = Get<'/admin/export'>
export type SqlRows = Post<'/admin/sql'>
export type DeadLetter = Schema<'DeadLetter'>
export type DeadLetterDetail = Get<'/admin/dead-letters/{id}'>
export type BulkAnswer = Schema<'BulkAnswer'>
export type Moderation = Schema<'Moderation'>
export type Labeler = Schema<'Labeler'>
export type FieldIndex = Schema<'FieldIndex'>
export type DatabaseSize = Get<'/admin/stats/database'>
export type DatabaseInfo = Get<'/admin/settings/db-info'>
export type Alert = Schema<'Alert'>
export type AlertMetric = Schema<'AlertMetricInfo'>
