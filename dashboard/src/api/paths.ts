/**
 * The paths of the API with their parameters, bodies and answers, as `openapi.json` describes them. A path that the server
 * does not have, a parameter that it does not read and a body that it does not take are errors of `npm run check`.
 */
import type { paths } from './types'

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'

/** The type of an escaped part of a path: with it `/admin/scripts/${part(id)}` is the type `/admin/scripts/{}`. */
export type Part = '{}'

/** A part of a path, escaped. */
export const part = (text: string) => encodeURIComponent(text) as Part

/** A path of the description with its parameters in the form of `Part`. */
type Blank<Path extends string> = Path extends `${infer Before}{${infer _Name}}${infer After}`
  ? `${Before}${Part}${Blank<After>}`
  : Path

/** The operations of a method by path. */
type Operations<M extends Method> = {
  [Path in keyof paths as paths[Path] extends Record<M, object> ? Blank<Path> : never]: paths[Path][M]
}

/** The paths that have a method. */
export type PathOf<M extends Method> = keyof Operations<M>

type Parameters<Operation> = Operation extends { parameters: { query?: infer Query } } ? NonNullable<Query> : never

/** The names of the parameters are checked. Values come from the URL of the page, as text; empty ones are not sent. */
export type QueryOf<M extends Method, Path extends PathOf<M>> = [Parameters<Operations<M>[Path]>] extends [never]
  ? Record<string, never>
  : { [Name in keyof Parameters<Operations<M>[Path]>]?: string | number | boolean | null | undefined }

type Json<Content> = Content extends { content: { 'application/json': infer Value } } ? Value : never

/** A body as JSON, or a file or form as it is. */
export type BodyOf<M extends Method, Path extends PathOf<M>> = Operations<M>[Path] extends { requestBody?: infer Body }
  ? Json<NonNullable<Body>> | Blob | FormData
  : undefined

type Successes = 200 | 201 | 202
type Answers<Operation> = Operation extends { responses: infer Responses }
  ? { [Status in keyof Responses & Successes]: Json<Responses[Status]> }[keyof Responses & Successes]
  : never

/** The body of a successful answer; undefined if it has none. */
export type AnswerOf<M extends Method, Path extends PathOf<M>> = [Answers<Operations<M>[Path]>] extends [never]
  ? undefined
  : Answers<Operations<M>[Path]>
