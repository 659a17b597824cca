---@meta belvedere.v3

---The second argument of `handle(input, ctx)`. Fields that do not apply are nil.
---@class belvedere.v3.Context
---@field trigger string the script's id
---@field env table<string, string> the script variables
---@field has_pds_auth boolean whether the run may act on the caller's PDS
---@field caller_did string? of a record event the account of the repo
---@field method string? queries and procedures
---@field collection string? also record events
---@field params table<string, any>? procedures
---@field delegate_did string? procedures
---@field space belvedere.v3.Space? queries and procedures
---@field job belvedere.v3.Job?

---@class belvedere.v3.Space
---@field uri string
---@field id string the same
---@field did string
---@field authority_did string the same
---@field spaceType string
---@field skey string

---@class belvedere.v3.Job
---@field id string
---@field progress fun(value: table) replaces the job's progress
---@field should_stop fun(): boolean whether a pause or a cancellation was requested
---@field wait fun(seconds: number) at most an hour, or until a stop is requested

---The first argument of scripts of record events.
---@class belvedere.v3.RecordEvent
---@field action "create"|"update"|"delete"
---@field uri string
---@field did string
---@field collection string
---@field rkey string
---@field record table? absent when it is deleted

---The first argument of scripts of labels.
---@class belvedere.v3.Label
---@field src string
---@field uri string
---@field val string
---@field neg boolean
---@field cts string
---@field exp string?

---@class belvedere.v3.Envelope
---@field uri string
---@field did string
---@field collection string
---@field rkey string
---@field cid string? nil for a record that is in the index only
---@field indexed_at string?
---@field record table

---@class belvedere.v3.Page
---@field records belvedere.v3.Envelope[]
---@field cursor string?

---@meta internal.logging

local logging = {}

---@param message string|number
---@param fields? table
function logging.debug(message, fields) end

---@param message string|number
---@param fields? table
function logging.info(message, fields) end

---@param message string|number
---@param fields? table
function logging.warn(message, fields) end

---@param message string|number
---@param fields? table
function logging.error(message, fields) end

return logging

---@meta internal.time

local time = {}

---Milliseconds since 1970.
---@return integer
function time.now() end

---@param ms integer
---@return string # such as `2026-01-31T12:00:00.000Z`
function time.to_iso8601(ms) end

---nil for a text that is no time.
---@param text string
---@return integer?
function time.from_iso8601(text) end

return time

---@meta internal.tids

local tids = {}

---A new record key.
---@return string
function tids.create() end

---@param ms integer
---@return string
function tids.to_tid(ms) end

---@param tid string
---@return integer
function tids.from_tid(tid) end

return tids

---@meta internal.json

local json = {}

---@param value any
---@return string
function json.encode(value) end

---@param text string
---@return any
function json.decode(text) end

---The table, which is an array also when it is empty.
---@param t table
---@return table
function json.to_array(t) end

---The JSON value null.
---@type any
json.null = nil

return json

---@meta happyview.db

local db = {}

---A step changes the chain that it is called on. A step whose value is nil changes nothing.
---@class belvedere.v3.RecordChain
local chain = {}

---@param field string
---@param op "="|"!="|"<"|">"|"<="|">="|"like"|"not like"|"ilike"
---@param value any
---@return belvedere.v3.RecordChain
function chain:where(field, op, value) end

---@param field string
---@param direction? "asc"|"desc"
---@return belvedere.v3.RecordChain
function chain:sort(field, direction) end

---@param number? integer
---@return belvedere.v3.RecordChain
function chain:limit(number) end

---@param cursor? string
---@return belvedere.v3.RecordChain
function chain:cursor(cursor) end

---@param did? string
---@return belvedere.v3.RecordChain
function chain:did(did) end

---@return belvedere.v3.Page
function chain:run() end

---@return integer
function chain:count() end

---@return belvedere.v3.Envelope?
function chain:first() end

---@param collection string
---@return belvedere.v3.RecordChain
function db.records(collection) end

---@param uri string
---@return belvedere.v3.Envelope?
function db.get(uri) end

---@param collection string
---@param field string
---@param text string
---@param limit? integer
---@return belvedere.v3.Envelope[]
function db.search(collection, field, text, limit) end

---@return "sqlite"|"postgres"
function db.backend() end

return db

---@meta happyview.sql

local sql = {}

---@class belvedere.v3.TableChain
local chain = {}

---@param field string a column
---@param op "="|"!="|"<"|">"|"<="|">="|"like"|"not like"|"ilike"
---@param value string|number|boolean|nil
---@return belvedere.v3.TableChain
function chain:where(field, op, value) end

---@param field string a column
---@param direction? "asc"|"desc" the default is `desc`
---@return belvedere.v3.TableChain
function chain:sort(field, direction) end

---@param number? integer up to 100; the default is 20
---@return belvedere.v3.TableChain
function chain:limit(number) end

---@return table[]
function chain:run() end

---@return integer
function chain:count() end

---The rows of a table.
---@param name string
---@return belvedere.v3.TableChain
function sql.from(name) end

---@param statement string
---@param params? table
---@return table[]
function sql.raw(statement, params) end

return sql

---@meta happyview.backlinks

local backlinks = {}

---@class belvedere.v3.LinkChain
local chain = {}

---Required.
---@param nsid string
---@return belvedere.v3.LinkChain
function chain:collection(nsid) end

---@param did? string
---@return belvedere.v3.LinkChain
function chain:did(did) end

---@param number? integer
---@return belvedere.v3.LinkChain
function chain:limit(number) end

---@param cursor? string
---@return belvedere.v3.LinkChain
function chain:cursor(cursor) end

---@return belvedere.v3.Page
function chain:run() end

---The records that link to a record or an account.
---@param uri string
---@return belvedere.v3.LinkChain
function backlinks.to(uri) end

return backlinks

---@meta happyview.record

local record = {}

---@param collection string
---@param fields table
---@param options? { rkey?: string, repo?: string, validate?: boolean }
---@return { uri: string, cid: string }
function record.create(collection, fields, options) end

---@param uri string
---@param fields table
---@param options? { swap_cid?: string, validate?: boolean }
---@return { uri: string, cid: string }
function record.put(uri, fields, options) end

---@param uri string
---@return true
function record.delete(uri) end

---The PDS's reference to the blob.
---@param bytes string|integer[]
---@param mime_type string
---@return table
function record.upload_blob(bytes, mime_type) end

---@param uri string
---@return belvedere.v3.Envelope?
function record.load(uri) end

---Saves a record in the index only.
---@param collection string
---@param rkey string
---@param fields table
---@param did? string
---@return { uri: string }
function record.save_local(collection, rkey, fields, did) end

---Whether the record was in the index.
---@param uri string
---@return boolean
function record.delete_local(uri) end

---The record as it would be stored. Raises `INVALID_RECORD` if it does not match its lexicon.
---@param collection string
---@param fields table
---@return table
function record.validate(collection, fields) end

---The part of the lexicon that records have.
---@param collection string
---@return table?
function record.lexicon(collection) end

return record

---@meta happyview.xrpc

local xrpc = {}

---The decoded body. Another status than 200 is an error.
---@param nsid string
---@param params? table
---@return any
function xrpc.query(nsid, params) end

---@param nsid string
---@param input? table
---@param params? table
---@return any
function xrpc.procedure(nsid, input, params) end

return xrpc

---@meta happyview.atproto

local atproto = {}

---@param did string
---@return string?
function atproto.resolve_service_endpoint(did) end

---@param did string
---@param cid string
---@return { bytes: string, mime_type: string, size: integer }
function atproto.blob_download(did, cid) end

---@param uri string
---@return { src: string, uri: string, val: string, cts: string }[]
function atproto.get_labels(uri) end

---@param uris string[]
---@return table<string, { src: string, uri: string, val: string, cts: string }[]>
function atproto.get_labels_batch(uris) end

---@param record table
---@return table
function atproto.sign(record) end

---@param record table
---@param signature table
---@param repo_did string
---@return boolean
function atproto.verify_signature(record, signature, repo_did) end

return atproto

---@meta happyview.spaces

local spaces = {}

---@class belvedere.v3.SpaceObject
local space = {}

---@param cursor? string
---@return { did: string, access: string }[]
function space:members(cursor) end

---@param did string
---@return boolean
function space:is_member(did) end

---@param did string
---@return string?
function space:access(did) end

---@param options? { collection?: string, limit?: integer, cursor?: string }
---@return belvedere.v3.Page
function space:records(options) end

---@param uri string
---@return belvedere.v3.SpaceObject
function spaces.get(uri) end

---@param options { uri: string, collection?: string, limit?: integer, cursor?: string }
---@return belvedere.v3.Page
function spaces.query(options) end

return spaces

---@meta happyview.linked_repos

local linked_repos = {}

---@class belvedere.v3.LinkedRepo
local repo = {}

---@param fields { collection: string, record: table, rkey?: string }
---@return { uri: string, cid: string }
function repo:create_record(fields) end

---@param fields { collection: string, rkey: string, record: table, swap_cid?: string }
---@return { uri: string, cid: string }
function repo:put_record(fields) end

---@param fields { collection: string, rkey: string }
---@return true
function repo:delete_record(fields) end

---@param bytes string
---@param mime_type string
---@return table
function repo:upload_blob(bytes, mime_type) end

---@param nsid string
---@param fields? { params?: table, input?: table }
---@return any
function repo:call(nsid, fields) end

---@return table[]
function linked_repos.list() end

---@param did string
---@return belvedere.v3.LinkedRepo
function linked_repos.get(did) end

return linked_repos

---@meta happyview.jobs

local jobs = {}

---@param job_type string
---@param input? table
---@param options? { auth?: boolean }
---@return string # the job's id
function jobs.create(job_type, input, options) end

---A job of the caller.
---@param id string
---@return table?
function jobs.get(id) end

---@param id string
---@return table?
function jobs.get_any(id) end

---Newest first.
---@param options? { status?: string[], job_type?: string, limit?: integer }
---@return table[]
function jobs.list_any(options) end

return jobs

---@meta happyview.http

return http

---@meta happyview.blobs

---Its functions raise an error: this server stores no blobs.
return {}

---@meta belvedere.labels

return labels

---@meta belvedere.moderation

return moderation

---@meta belvedere.plugin

return plugin

---@meta belvedere.view

return view
