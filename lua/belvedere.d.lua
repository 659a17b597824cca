---@meta belvedere

-- What a run is given -----------------------------------------------------------------------------------------------

---The NSID that was called. Queries and procedures.
---@type string
method = nil

---The query string: every value a string, a repeated key an array of strings, a key without `=` an empty string.
---Queries and procedures.
---@type table<string, string|string[]>
params = nil

---The body of a procedure call.
---@type any
input = nil

---The lexicon's `target_collection`; in record events the record's collection.
---@type string?
collection = nil

---Who called, when they proved it. Always nil in record and label events: a stranger's record acts for nobody.
---@type string?
caller_did = nil

---The account that a procedure's caller writes for, if it is not their own: records are saved to its repo.
---@type string?
delegate_did = nil

---The script variables, by name. A name that is not set is nil.
---@type table<string, string>
env = nil

-- Time and record keys ----------------------------------------------------------------------------------------------

---The current time, RFC 3339 in UTC with microseconds: `2026-01-31T12:00:00.000000Z`.
---@return string
function now() end

---@class belvedere.TID
---@overload fun(): string
TID = {}

---The time of a record key, RFC 3339 with microseconds. Raises `bad-input` for what is no TID.
---@param tid string
---@return string
function TID.toISO8601(tid) end

---The record key of a time, with clock id 0. Takes any offset and any fraction of a second.
---@param timestamp string
---@return string
function TID.fromISO8601(timestamp) end

---Microseconds since the Unix epoch.
---@param tid string
---@return integer
function TID.toUnixMicroseconds(tid) end

---@param microseconds integer
---@return string
function TID.fromUnixMicroseconds(microseconds) end

---All 64 bits of a record key; with `fromNumber` nothing is lost.
---@param tid string
---@return integer
function TID.toNumber(tid) end

---@param number integer
---@return string
function TID.fromNumber(number) end

-- JSON --------------------------------------------------------------------------------------------------------------

---JSON's null: not nil, so that a field can hold it; equal to itself only.
---@class belvedere.null: userdata

---@class belvedere.json
---@field null belvedere.null
json = {}

---JSON text of a value. Raises `bad-input` for what JSON can't say: functions, cycles, NaN, infinities, tables that mix
---positions and names, more than 127 levels.
---@param value any
---@return string
function json.encode(value) end

---The value of a JSON text. Arrays stay arrays when they are written again, null becomes `json.null`.
---@param text string
---@return any
function json.decode(text) end

---A new array with the sequence part of a table: written as `[]` even when it is empty.
---@generic T
---@param t T[]
---@return T[]
function toarray(t) end

-- Logging -----------------------------------------------------------------------------------------------------------

---Writes a line to the server's log (at debug level) and to the event log (`script.log`). 100 lines of 4 KiB a run.
---@param message string|number
function log(message) end

-- Errors ------------------------------------------------------------------------------------------------------------

---What the functions here raise, and `pcall` catches. `tostring(fault)` is the message, with chunk and line in front.
---@class belvedere.Fault
---@field code "bad-input"|"forbidden"|"no-session"|"limit"|"unavailable"|"upstream"
---@field message string
---@field status integer? the HTTP status of an upstream server's answer

-- The index ---------------------------------------------------------------------------------------------------------

---A record of the index: its own fields, and where it is.
---@class belvedere.Row
---@field uri string
---@field [string] any

---@class belvedere.Condition
---@field field string a path: names joined by dots, `[n]` into arrays
---@field op? "="|"!="|"<"|">"|"<="|">="|"LIKE"|"NOT LIKE" `=` when left out
---@field value string|number|boolean

---A group of conditions and groups, five levels deep at most.
---@class belvedere.Group
---@field combine? "AND"|"OR" `AND` when left out
---@field [integer] belvedere.Condition|belvedere.Group

---@class belvedere.Query
---@field collection string
---@field did? string one account's records only
---@field filter? belvedere.Condition|belvedere.Group
---@field sort? string `indexed_at` (the default), `did`, `uri`, or a path
---@field sortDirection? "asc"|"desc" `desc` when left out
---@field limit? integer|string 20 when left out, 100 at most
---@field cursor? string where the page before ended

---@class belvedere.Page
---@field records belvedere.Row[]
---@field cursor string? only when there are more

---@class belvedere.db
db = {}

---A page of a collection's records, newest first unless sorted.
---@param query belvedere.Query
---@return belvedere.Page
function db.query(query) end

---One record by its full at-uri; nil when the index does not have it.
---@param uri string
---@return belvedere.Row?
function db.get(uri) end

---How many records a collection has, of one account or of all.
---@param collection string
---@param did? string
---@return integer
function db.count(collection, did) end

---The database behind the index.
---@return "sqlite"|"postgres"
function db.backend() end

-- db.search ----------------------------------------------------------------------------------------------------------

---@class belvedere.Search
---@field collection string
---@field field string a path into the record, `text` or `a.b[0]`
---@field query string what the field has somewhere in it
---@field limit? integer|string 10 when left out, 100 at most

---Records whose field has a text somewhere in it, whatever the case of ASCII letters: exact matches first, then those
---that begin with it, then the rest.
---@param search belvedere.Search
---@return { records: belvedere.Row[] }
function db.search(search) end

-- db.raw -------------------------------------------------------------------------------------------------------------

---Runs one SQL statement: a SELECT over `records`, `record_refs`, `labels`, `lexicons` and tables of your own, or one that
---makes, changes or writes a table of your own, whose name begins with `script_`. 1,000 rows and 4 MiB at most, 5 s.
---@param sql string `$1`, `$2` and so on stand for parameters
---@param params? (string|number|boolean|belvedere.null)[]
---@return table<string, string|number|boolean>[] rows a column that is NULL is nil; JSON is text
---@return integer? changed how many rows an INSERT, UPDATE or DELETE touched
function db.raw(sql, params) end

-- db.backlinks -------------------------------------------------------------------------------------------------------

---@class belvedere.Backlinks
---@field collection string of the records that name the target
---@field uri string the target, as the records spell it
---@field did? string one account's records only
---@field limit? integer|string 20 when left out, 100 at most
---@field cursor? string where the page before ended

---The records of a collection that name a record or an account, last created first.
---@param links belvedere.Backlinks
---@return belvedere.Page
function db.backlinks(links) end

-- Record -------------------------------------------------------------------------------------------------------------

---A record: its own fields, and what is beside them. `_uri` and its like can be read, not set.
---@class belvedere.Record
---@field _uri string? nil before the first save
---@field _cid string? nil before the first save, and for rows of the index alone
---@field _collection string
---@field _rkey string?
---@field _key_type string? `tid`, `any`, `nsid` or `literal:KEY`
---@field _schema table? the lexicon's schema of the record
---@field _repo string? what `set_repo` was given
---@field save fun(self: belvedere.Record): belvedere.Record Creates it on the caller's PDS, or replaces it there.
---@field delete fun(self: belvedere.Record): belvedere.Record On the caller's PDS and in the index.
---@field save_local fun(self: belvedere.Record): belvedere.Record In the index only.
---@field delete_local fun(self: belvedere.Record): belvedere.Record In the index only.
---@field set_rkey fun(self: belvedere.Record, rkey: string): belvedere.Record
---@field generate_rkey fun(self: belvedere.Record): string
---@field set_key_type fun(self: belvedere.Record, type: string): belvedere.Record
---@field set_repo fun(self: belvedere.Record, did: string): belvedere.Record
---@field [string] any

---@class belvedere.Saved
---@field uri string
---@field cid string

---Records: building, loading, saving and deleting them. `save`, `save_all` and `delete` need a session with the caller's
---PDS and raise `no-session` without one; a record of another repo raises `forbidden`; what the PDS refuses `upstream`.
---@class belvedere.RecordType
---@overload fun(collection: string, fields?: table<string, any>): belvedere.Record
Record = {}

---A new record with the defaults of its lexicon. The same as `Record(collection, fields)`.
---@param collection string
---@param fields? table<string, any>
---@return belvedere.Record
function Record.new(collection, fields) end

---The record that the index has, or nil.
---@param uri string
---@return belvedere.Record?
function Record.load(uri) end

---Up to 100 at once, in their order; false for one that is not there.
---@param uris string[]
---@return (belvedere.Record|false)[]
function Record.load_all(uris) end

---Saves up to 200 in one commit: all or none.
---@param records belvedere.Record[]
---@return belvedere.Saved[]
function Record.save_all(records) end

---Removes a row of the index. False when there was none.
---@param uri string
---@param repo? string whose it is; the caller's when left out
---@return boolean
function Record.delete_local(uri, repo) end

-- http ---------------------------------------------------------------------------------------------------------------

---@class belvedere.HttpOptions
---@field headers? table<string, string> Names in any case. Those about the message's form (Host, Content-Length, …) are the server's.
---@field body? string Text or bytes, at most 5 MiB; not for get and head.

---@class belvedere.HttpRequest: belvedere.HttpOptions
---@field url string
---@field method? "get"|"post"|"put"|"patch"|"delete"|"head" In any case; get when left out.

---@class belvedere.HttpAnswer
---@field status integer
---@field headers table<string, string> Names in lower case; of a header that came several times the values joined by ", ".
---@field body string As it came: text or bytes.

---@class belvedere.HttpFailure
---@field error {code: string, message: string} Why there is no answer.

---Requests to other servers. Any status is an answer; without one an error is raised: `bad-input`, `forbidden` (an
---internal address), `limit` or `unavailable`.
---@class belvedere.http
http = {}

---@param url string
---@param options? belvedere.HttpOptions
---@return belvedere.HttpAnswer
function http.get(url, options) end

---@param url string
---@param options? belvedere.HttpOptions
---@return belvedere.HttpAnswer
function http.post(url, options) end

---@param url string
---@param options? belvedere.HttpOptions
---@return belvedere.HttpAnswer
function http.put(url, options) end

---@param url string
---@param options? belvedere.HttpOptions
---@return belvedere.HttpAnswer
function http.patch(url, options) end

---@param url string
---@param options? belvedere.HttpOptions
---@return belvedere.HttpAnswer
function http.delete(url, options) end

---@param url string
---@param options? belvedere.HttpOptions
---@return belvedere.HttpAnswer
function http.head(url, options) end

---Up to 20 requests at once. The answers are in the order of the requests; one that failed has `error` and nothing else.
---@param requests belvedere.HttpRequest[]
---@return (belvedere.HttpAnswer|belvedere.HttpFailure)[]
function http.send_all(requests) end

-- xrpc ---------------------------------------------------------------------------------------------------------------

---@alias belvedere.XrpcParam string|number|boolean

---@class belvedere.XrpcAnswer
---@field status integer
---@field body string As it came: JSON text, as a rule.

---Methods of this server, run in process as the same caller, and of others, asked on nobody's behalf. Any status is an
---answer; without one an error is raised: `bad-input`, `forbidden`, `limit` or `unavailable`.
---@class belvedere.xrpc
xrpc = {}

---What `GET /xrpc/nsid` answers.
---@param nsid string
---@param params? table<string, belvedere.XrpcParam|belvedere.XrpcParam[]>
---@return belvedere.XrpcAnswer
function xrpc.query(nsid, params) end

---What `POST /xrpc/nsid` answers. Needs a caller; not in record and label events.
---@param nsid string
---@param input any The body, as JSON; nil sends none.
---@param params? table<string, belvedere.XrpcParam|belvedere.XrpcParam[]>
---@return belvedere.XrpcAnswer
function xrpc.procedure(nsid, input, params) end

-- atproto ------------------------------------------------------------------------------------------------------------

---@class belvedere.Label
---@field src string Who set it, a DID; the author for what a record says about itself.
---@field uri string
---@field val string
---@field cts string When, RFC 3339; empty for what a record says about itself.

---@class belvedere.Blob
---@field size fun(self: belvedere.Blob): integer In bytes.
---@field mime_type fun(self: belvedere.Blob): string

---@class belvedere.Download
---@field handle belvedere.Blob
---@field mimeType string
---@field size integer

---The network's accounts, labels, blobs, and signatures over records.
---@class belvedere.atproto
atproto = {}

---Origin of an account's PDS, nil when it has none. Raises `bad-input` for what is no DID, `unavailable` when nobody says.
---@param did string
---@return string?
function atproto.resolve_service_endpoint(did) end

---The labels on a record or an account that hold now, its author's own included.
---@param uri string An at-uri or a DID.
---@return belvedere.Label[]
function atproto.get_labels(uri) end

---The same for at most 100, in one query. Every URI has an entry.
---@param uris string[]
---@return table<string, belvedere.Label[]>
function atproto.get_labels_batch(uris) end

---A blob of an account, from its PDS, checked against its CID. The bytes stay on the server.
---@param did string
---@param cid string
---@return belvedere.Download
function atproto.blob_download(did, cid) end

---Puts a downloaded blob onto the caller's PDS. Only in runs with a PDS session, else nil.
---@param handle belvedere.Blob
---@param content_type? string The blob's own when left out.
---@return table answer What the PDS answered: `blob` is what goes into a record.
function atproto.blob_upload(handle, content_type) end

---This instance's signature over a record in the caller's repo. Raises `forbidden` without a caller.
---@param record table
---@return table signature `{$type, key, signature}`, to be put into the record's `signatures`.
function atproto.sign(record) end

---Whether a signature is this instance's, for this record in this repo.
---@param record table
---@param signature table
---@param repo_did string
---@return boolean
function atproto.verify_signature(record, signature, repo_did) end

-- Events -------------------------------------------------------------------------------------------------------------

---What happened, in record and label scripts: the globals of the same names in one table.
---@class belvedere.RecordEvent
---@field action "create"|"update"|"delete"
---@field uri string
---@field did string the author
---@field collection string
---@field rkey string
---@field record table? nil for a delete

---@class belvedere.LabelEvent
---@field src string the labeler's DID
---@field uri string an at-uri, or a DID
---@field val string
---@field neg boolean whether it takes an earlier one back
---@field cts string when it was made
---@field exp string? until when it holds

---@type belvedere.RecordEvent|belvedere.LabelEvent
event = nil

---@type "create"|"update"|"delete"
action = nil

---@type string
uri = nil

---@type string
did = nil

---@type string
rkey = nil

---@type table?
record = nil

---@type string
src = nil

---@type string
val = nil

---@type boolean
neg = nil

---@type string
cts = nil

---@type string?
exp = nil

-- Jobs ---------------------------------------------------------------------------------------------------------------

---@class belvedere.jobs
jobs = {}

---Queues a job of a type and gives its id. It works for this run's caller; without one: `forbidden`. A type without a
---script is `bad-input`; an input over 64 KiB, or more than 100 waiting jobs of the caller, `limit`.
---@param type string
---@param input? any
---@param options? { auth: boolean } auth: the job acts with the caller's PDS session
---@return string id
function jobs.create(type, input, options) end

---The running job. Only in a job's run.
---@class belvedere.Job
---@field id string
---@field input any
job = {}

---Replaces what operators see of the job's progress, 16 KiB at most.
---@param value table
function job.progress(value) end

---Whether somebody wants the job to pause or to be cancelled, or the server is ending.
---@return boolean
function job.should_stop() end

---Waits, an hour at most. Comes back early when the job should stop.
---@param seconds number
function job.wait(seconds) end

---A grant, usable or not.
---@class belvedere.LinkedRepoGrant
---@field id string
---@field did? string nil until an open grant is authorized
---@field handle? string
---@field reason? string
---@field status "pending"|"active"|"needs_reauth"
---@field scopes string separated by blanks

---A repo whose owner let this instance write to it. Errors: `forbidden` beyond the grant's scopes or when it is gone,
---`no-session` when it needs to be authorized again, `upstream` for what the PDS refuses.
---@class belvedere.LinkedRepo
---@field did string
---@field handle? string
---@field status string
---@field scopes string
---@field create_record fun(self: belvedere.LinkedRepo, fields: { collection: string, record: table, rkey?: string }): { uri: string, cid: string }
---@field put_record fun(self: belvedere.LinkedRepo, fields: { collection: string, rkey: string, record: table, swap_cid?: string }): { uri: string, cid: string }
---@field delete_record fun(self: belvedere.LinkedRepo, fields: { collection: string, rkey: string }): true
---@field upload_blob fun(self: belvedere.LinkedRepo, bytes: string, mime_type: string): table what the PDS answered
---@field call fun(self: belvedere.LinkedRepo, nsid: string, fields?: { params?: table, input?: any }): any a query of the PDS, or with `input` a procedure

---Repos whose owners let this instance write to them.
---@class belvedere.linked_repos
linked_repos = {}

---All grants that this script may see.
---@return belvedere.LinkedRepoGrant[]
function linked_repos.list() end

---The linked repo of an account, or nil. Raises `no-session` when it is not authorized, or needs to be again.
---@param did string
---@return belvedere.LinkedRepo?
function linked_repos.get(did) end
