/**
 * What the server answers, as its description says (`openapi.json`, from which `types.ts` is made). A field that the
 * server renames is an error of `npm run check` here.
 */
import type { components, paths } from './types'

export type Schema<Name extends keyof components['schemas']> = components['schemas'][Name]

/** The body of a successful answer. */
type Body<Operation> = Operation extends { responses: infer Responses }
  ? { [Status in keyof Responses & (200 | 201)]: Responses[Status] }[keyof Responses & (200 | 201)] extends {
      content: { 'application/json': infer Answer }
    }
    ? Answer
    : never
  : never
export type Get<Path extends keyof paths> = Body<paths[Path]['get']>
export type Post<Path extends keyof paths> = Body<paths[Path]['post']>

export type Config = Get<'/config'>
export type Me = Get<'/auth/me'>
export type OwnSession = Schema<'OwnSession'>

/** A lexicon's document. It comes from outside: everything but its shape is unknown. */
export interface LexiconDocument {
  id?: unknown
  defs?: Record<string, { type?: unknown } | undefined>
  [key: string]: unknown
}

export type Lexicon = Schema<'Lexicon'>
export type LexiconUpload = Schema<'NewLexicon'>
export type LexiconSaved = Schema<'SavedLexicon'>
export type ResolvedLexicon = Get<'/admin/network-lexicons/resolve/{nsid}'>
export type ServiceEntry = Schema<'ServiceEntry'>

export type UploadPreview = Post<'/admin/lexicons/preview'>
/** What becomes of the newest records of a collection. */
export type RecordsPreview = Schema<'RecordsPreview'>
export type LexiconRevision = Get<'/admin/lexicons/{id}/revisions/{revision}'>

export type IndexedRecord = Schema<'Record'>
export type RecordField = Schema<'RecordField'>
export type BulkOutcome = Schema<'BulkOutcome'>
export type Why = Get<'/admin/records/why'>
export type Stats = Get<'/admin/stats'>
export type LogEvent = Schema<'Event'>
export type Overview = Schema<'Overview'>
export type OverviewBackfill = Schema<'BackfillSummary'>
export type Checks = Get<'/admin/checks'>
export type MetricHistory = Get<'/admin/metrics'>

export type LinkedAccount = Schema<'LinkedAccount'>
/** A plugin that links accounts of another service. */
export type Provider = Get<'/external-auth/providers'>[number]

/** A key that is shown once. */
export type NewApiKey = Post<'/admin/api-keys'>
export type NewApiClient = Post<'/admin/api-clients'>
