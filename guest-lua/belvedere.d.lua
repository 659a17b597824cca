---@meta belvedere

-- What a run is given -----------------------------------------------------------------------------------------------

---The NSID that was called. Queries and procedures.
---@type string
method = nil

---The parameters as the lexicon declares them, with its defaults. What it does not declare is a string, an array of strings for a
---repeated key, an empty string for a key without `=`. Queries, procedures and subscriptions.
---@type table<string, any>
params = nil

---Set it to true at the top level, outside of functions, conditions and loops: the values in `params` are then strings, and defaults are left out.
---@type boolean
params_raw = nil

---The body of a procedure call, with the defaults of the lexicon.
---@type any
input = nil

---The lexicon's `target_collection`; in record events and subscriptions the record's collection.
---@type string?
collection = nil

---The authenticated caller's DID. Always nil in record and label events: a record's author can't act for others.
---@type string?
caller_did = nil

---The account that a procedure's caller writes for, if it is not their own: records are saved to its repo.
---@type string?
delegate_did = nil

---The space that the request names in the parameter or the field `space`, if the caller may list records of it. Queries and
---procedures.
---@type belvedere.Space?
space = nil

---A permissioned space.
---@class belvedere.Space
---@field space string its address: `at://AUTHORITY/space/TYPE/KEY`
---@field space_id string the same: a space has no other id
---@field did string its authority
---@field authority_did string the same
---@field type_nsid string
---@field skey string

---The script variables, by name. A name that is not set is nil.
---@type table<string, string>
env = nil

-- Calls at the same time ---------------------------------------------------------------------------------------------

---Calls functions without arguments and returns the first value of each, in their order. Their calls of the server are made at the same time,
---at most 8: requests, queries of methods, and reads. When some raise errors, that of the first function in their order is raised, after all have ended.
---@generic A, B, C, D, E, F, G, H
---@param a? fun(): A
---@param b? fun(): B
---@param c? fun(): C
---@param d? fun(): D
---@param e? fun(): E
---@param f? fun(): F
---@param g? fun(): G
---@param h? fun(): H
---@param ... fun(): any
---@return A, B, C, D, E, F, G, H, any ...
function parallel(a, b, c, d, e, f, g, h, ...) end

-- Time and record keys ----------------------------------------------------------------------------------------------

---The value that the library `lib:NAME` returns, or a module of v3 such as `happyview.db`. A library runs once in a run, when it is required for
---the first time. Raises `bad-input` when there is none.
---@param name string
---@return any
function require(name) end

---The current time, RFC 3339 in UTC with microseconds: `2026-01-31T12:00:00.000000Z`.
---@return string
function now() end

---@class belvedere.TID
---@overload fun(): string
TID = {}

---The time of a record key, RFC 3339 with microseconds. Raises `bad-input` for an invalid TID.
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

---All 64 bits of a record key, which `fromNumber` converts back.
---@param tid string
---@return integer
function TID.toNumber(tid) end

---@param number integer
---@return string
function TID.fromNumber(number) end

-- JSON --------------------------------------------------------------------------------------------------------------

---JSON's null: not nil, so that a field can contain it; equal only to itself.
---@class belvedere.null: userdata

---@class belvedere.json
---@field null belvedere.null
json = {}

---JSON text of a value. Raises `bad-input` for values that JSON can't represent: functions, cycles, NaN, infinities, tables
---that mix positions and names, more than 127 levels.
---@param value any
---@return string
function json.encode(value) end

---The value of a JSON text. Arrays stay arrays when they are encoded again, null becomes `json.null`. A table is returned
---unchanged.
---@param text string|table
---@return any
function json.decode(text) end

---Marks a table as an array, encoded as `[]` when it is empty, and returns it. A table with named fields or a metatable is
---not changed: a new array with its sequence part is returned.
---@generic T
---@param t T[]
---@return T[]
function toarray(t) end

-- Logging -----------------------------------------------------------------------------------------------------------

---Writes a line to the server's log (at debug level) and to the event log (`script.log`). At most 100 lines of 4 KiB per run.
---@param message string|number
function log(message) end

-- Errors ------------------------------------------------------------------------------------------------------------

---The error object that the server's functions raise. `tostring(fault)` is the message with chunk and line in front.
---@class belvedere.Fault
---@field code "bad-input"|"forbidden"|"no-session"|"limit"|"unavailable"|"upstream"|belvedere.PluginCode
---@field message string
---@field status integer? the HTTP status of an upstream server's response

---Codes that only functions of plugins raise.
---@alias belvedere.PluginCode
---| "invalid-record"
---| "not-found"
---| "conflict"
---| "auth-required"
---| "out-of-scope"
---| "needs-reauth"
---| "not-linked"
---| "rate-limited"
---| "timed-out"
---| "too-large"
---| "quota"
---| "unsupported"
---| "internal"

---The table with which a query or a procedure ends with an answer of its own: `error({ status = 404, error = "NotFound" })`.
---@class belvedere.Status
---@field status integer from 400 to 499
---@field error string a code or a short text, up to 128 bytes
---@field message? string a text for people

-- The index ---------------------------------------------------------------------------------------------------------

---A record of the index: its fields and its address.
---@class belvedere.Row
---@field uri string
---@field _did string the account of its address. This and the next three are in no loop over the row and in no JSON
---@field _rkey string
---@field _cid string? nil when the index has none
---@field _indexed_at string the time at which it was indexed, RFC 3339 in UTC
---@field [string] any

---@class belvedere.Condition
---@field field string a path: names joined by dots, `[n]` into arrays
---@field op? "="|"!="|"<"|">"|"<="|">="|"LIKE"|"NOT LIKE"|"IN"|"NOT IN"|"BETWEEN"|"PREFIX"|"EXISTS"|"MISSING" `=` when left out
---@field value? string|number|boolean|(string|number|boolean)[] a list for `IN`, `NOT IN` and `BETWEEN`; none for `EXISTS` and `MISSING`

---A group of conditions and groups, five levels deep at most.
---@class belvedere.Group
---@field combine? "AND"|"OR" `AND` when left out
---@field [integer] belvedere.Condition|belvedere.Group

---@class belvedere.Query
---@field collection string
---@field space? string the address of a space: its records, by key. Without `filter`, `sort` and `valid`
---@field did? string|string[] the records of one account only, a DID or a handle, or of several, 10,000 DIDs at most
---@field filter? belvedere.Condition|belvedere.Group
---@field sort? string|string[] `indexed_at` when left out, `did`, `uri`, or a path; or a list of up to 4 of them, which ascend, or descend after "-"
---@field sortDirection? "asc"|"desc" of one key; `desc` when left out
---@field valid? boolean|"true"|"false" only records that their lexicon accepts, or only those that it rejects
---@field limit? integer|string 20 when left out, 100 at most
---@field cursor? string the cursor of the page before

---@class belvedere.Page
---@field records belvedere.Row[]
---@field cursor string? only when there are more

---@class belvedere.db
db = {}

---A page of a collection's records, newest first unless sorted.
---@param query belvedere.Query
---@return belvedere.Page
function db.query(query) end

---One record by its full at-uri; nil when the index does not have it. With an address in a space, nil also when the caller does
---not see it.
---@param uri string
---@return belvedere.Row?
function db.get(uri) end

---@class belvedere.Count
---@field collection string
---@field did? string|string[] the records of one account only, or of several, 10,000 at most
---@field filter? belvedere.Condition|belvedere.Group
---@field valid? boolean|"true"|"false" only records that their lexicon accepts, or only those that it rejects
---@field space? string the address of a space: the records in it that the caller may read. Without `filter` and `valid`

---The number of records in a collection, of one account or of all.
---@param collection string|belvedere.Count
---@param did? string a DID or a handle
---@param space? string the address of a space: the records in it that the caller may read
---@return integer
function db.count(collection, did, space) end

---@class belvedere.GroupKey
---@field field string a path, `did`, `collection`, `rkey` or `indexed_at`
---@field bucket? "hour"|"day"|"week"|"month" of a time in UTC: `2026-11-26T10`, `2026-11-26`, `2026-W48`, `2026-11`
---@field as? string its name in the rows, the field's when left out

---@class belvedere.Grouping
---@field collection string
---@field by string|(string|belvedere.GroupKey)[] 1 to 5 keys
---@field did? string|string[] the records of one account only, or of several, 10,000 at most
---@field filter? belvedere.Condition|belvedere.Group
---@field valid? boolean|"true"|"false" only records that their lexicon accepts, or only those that it rejects
---@field order? string|string[] names of keys and `count`, which ascend, or descend after "-"; `-count` when left out
---@field limit? integer|string 50 when left out, 1,000 at most

---The numbers of records by values of theirs, the largest first. A row has the keys by their names and `count`; a key that the
---records have no value for is nil.
---@param grouping belvedere.Grouping
---@return table<string, any>[]
function db.group(grouping) end

---The database behind the index.
---@return "sqlite"|"postgres"
function db.backend() end

-- db.search ----------------------------------------------------------------------------------------------------------

---@class belvedere.Search
---@field collection string
---@field field? string a path into the record, `text` or `a.b[0]`; required, unless `fields` are given
---@field fields? string[] 1 to 4 paths, the most important first
---@field query string the text to find anywhere in a field
---@field limit? integer|string 10 when left out, 100 at most
---@field cursor? string the cursor of the page before

---Records of which a field contains a text, ignoring the case of ASCII letters: exact matches first, then those
---that begin with it, then the rest.
---@param search belvedere.Search
---@return belvedere.Page
function db.search(search) end

-- db.raw -------------------------------------------------------------------------------------------------------------

---Runs one SQL statement: a SELECT over `records`, `record_refs`, `accounts`, `labels`, `lexicons` and your own tables, or one that
---creates, alters or writes one of your own tables, whose names begin with `script_`. 1,000 rows and 4 MiB at most, 5 s.
---@param sql string `$1`, `$2` and so on stand for parameters
---@param params? (string|number|boolean|belvedere.null)[]
---@return table<string, any>[] rows a column that is NULL is nil; JSON is decoded
---@return integer? changed the number of rows that an INSERT, UPDATE or DELETE changed
function db.raw(sql, params) end

---@class belvedere.SqlPage
---@field order string|string[] 1 to 4 names of columns of the result, which ascend, or descend after "-"; together they differ in all rows
---@field limit? integer|string 50 when left out, 500 at most
---@field cursor? string the cursor of the page before

---A page of the rows of a SELECT. `cursor` only when there are more.
---@param sql string
---@param params? (string|number|boolean|belvedere.null)[]
---@param page belvedere.SqlPage
---@return { rows: table<string, any>[], cursor: string? }
function db.page(sql, params, page) end

-- db.backlinks -------------------------------------------------------------------------------------------------------

---@class belvedere.Backlinks
---@field collection string of the records that link to the target
---@field target? string the AT URI or the DID, spelled as in the records, or with the account's handle; required, unless `uri` is given
---@field uri? string the older name of `target`
---@field path? string the place of the link in the records: names joined by dots, `[]` for the items of an array
---@field did? string one account's records only: a DID or a handle
---@field uris_only? boolean|"true"|"false" records without their fields: only `uri`, `_did`, `_rkey` and `_indexed_at`
---@field limit? integer|string 20 when left out, 100 at most, with `uris_only` 1,000
---@field cursor? string the cursor of the page before

---The records of a collection that link to a record or an account, newest first.
---@param links belvedere.Backlinks
---@return belvedere.Page
function db.backlinks(links) end

---Links of records of a collection.
---@class belvedere.LinkKind
---@field collection string of the records that link to a target
---@field path? string the place of the link in the records

---How many records link to each target, by target and the name of the kind.
---@param targets string[] AT URIs and DIDs, 100 at most
---@param kinds table<string, belvedere.LinkKind|string> 10 at most; a text is the collection
---@return table<string, table<string, integer>>
function db.link_counts(targets, kinds) end

---The newest record of an account that links to each target, by target and the name of the kind: its AT URI, or nothing.
---@param did string
---@param targets string[] AT URIs and DIDs, 100 at most
---@param kinds table<string, belvedere.LinkKind|string> 10 at most; a text is the collection
---@return table<string, table<string, string>>
function db.links_by(did, targets, kinds) end
-- db.profiles --------------------------------------------------------------------------------------------------------

---@class belvedere.Profile
---@field did string
---@field handle? string the verified one that is stored here, else nil: that of an account with records here is looked up for later calls, and `atproto.handles` waits for any
---@field uri? string of the record; nil without one
---@field cid? string
---@field record? table the profile record: that of the settings `profile_collection` and `profile_rkey`

---The profiles of at most 100 accounts, by DID. Hidden accounts are left out; others have an entry even without a record.
---@param dids string[]
---@return table<string, belvedere.Profile>
function db.profiles(dids) end

-- Record -------------------------------------------------------------------------------------------------------------

---A record: its fields and its metadata. `_uri` and the other metadata can be read but not set.
---@class belvedere.Record
---@field _uri string? nil before the first save
---@field _cid string? nil before the first save, and for rows of the index alone
---@field _collection string
---@field _rkey string?
---@field _key_type string? `tid`, `any`, `nsid` or `literal:KEY`
---@field _schema table? the lexicon's schema of the record
---@field _repo string? the argument of `set_repo`
---@field _space string? the space that it is in
---@field save fun(self: belvedere.Record, options?: belvedere.SaveOptions): belvedere.Record Creates it on the caller's PDS, or replaces it there.
---@field delete fun(self: belvedere.Record): belvedere.Record On the caller's PDS and in the index.
---@field save_local fun(self: belvedere.Record, options?: belvedere.SaveOptions): belvedere.Record In the index only.
---@field delete_local fun(self: belvedere.Record): belvedere.Record In the index only.
---@field set_rkey fun(self: belvedere.Record, rkey: string): belvedere.Record
---@field generate_rkey fun(self: belvedere.Record): string
---@field set_key_type fun(self: belvedere.Record, type: string): belvedere.Record
---@field set_repo fun(self: belvedere.Record, did: string): belvedere.Record
---@field set_space fun(self: belvedere.Record, uri: string): belvedere.Record It is saved in the caller's repo in this space.
---@field [string] any

---@class belvedere.SaveOptions
---@field validate? boolean false: what the lexicon rejects is written too, and flagged as invalid

---@class belvedere.Saved
---@field uri string
---@field cid string

---Records: building, loading, saving and deleting them. `save`, `save_all` and `delete` need a session with the caller's
---PDS and raise `no-session` without one; a record of another repo raises `forbidden`; one that its lexicon rejects
---`bad-input`; a refusal by the PDS `upstream`.
---Only fields that the collection's lexicon declares are sent, and those that a loaded record already had.
---@class belvedere.RecordType
---@overload fun(collection: string, fields?: table<string, any>, options?: belvedere.RecordOptions): belvedere.Record
Record = {}

---@class belvedere.RecordOptions
---@field open? boolean true: fields that the lexicon does not declare are sent too

---A new record with the defaults of its lexicon. The same as `Record(collection, fields, options)`.
---@param collection string
---@param fields? table<string, any>
---@param options? belvedere.RecordOptions
---@return belvedere.Record
function Record.new(collection, fields, options) end

---The record at a URI from the index, or from a space; nil when it is not there, or the caller does not see it.
---@param uri string
---@param options? belvedere.RecordOptions
---@return belvedere.Record?
function Record.load(uri, options) end

---Up to 100 records in the order of their URIs; false for one that is not in the index.
---@param uris string[]
---@param options? belvedere.RecordOptions
---@return (belvedere.Record|false)[]
function Record.load_all(uris, options) end

---Saves up to 200 in one commit: all or none.
---@param records belvedere.Record[]
---@param options? belvedere.SaveOptions
---@return belvedere.Saved[]
function Record.save_all(records, options) end

---Removes a row of the index. False when there was none.
---@param uri string
---@param repo? string the record's repo; the caller's when left out
---@return boolean
function Record.delete_local(uri, repo) end

-- http ---------------------------------------------------------------------------------------------------------------

---@class belvedere.HttpOptions
---@field headers? table<string, string> Names in any case. Framing headers (Host, Content-Length, …) can't be set.
---@field body? string Text or bytes, at most 5 MiB; not for get and head.

---@class belvedere.HttpRequest: belvedere.HttpOptions
---@field url string
---@field method? "get"|"post"|"put"|"patch"|"delete"|"head" In any case; get when left out.

---@class belvedere.HttpAnswer
---@field status integer
---@field headers table<string, string> Names in lower case; the values of a repeated header are joined by ", ", except for `set-cookie`, which has the last.
---@field set_cookies string[] The values of all `Set-Cookie` headers.
---@field body string The unchanged body: text or bytes.

---@class belvedere.HttpFailure
---@field error {code: string, message: string} Why there is no response.

---Requests to other servers. A response with any status is returned; without a response an error is raised: `bad-input`,
---`forbidden` (an internal address), `limit`, `unavailable`, or `upstream` (an invalid response or redirect).
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

---Up to 20 requests at once. The responses are in the order of the requests; one that failed has only `error`.
---@param requests belvedere.HttpRequest[]
---@return (belvedere.HttpAnswer|belvedere.HttpFailure)[]
function http.send_all(requests) end

-- xrpc ---------------------------------------------------------------------------------------------------------------

---@alias belvedere.XrpcParam string|number|boolean

---@class belvedere.XrpcAnswer
---@field status integer
---@field body string The unchanged body: JSON text, as a rule.

---Methods of this server, run in process as the same caller, and of others, called anonymously. A response with any status
---is returned; without a response an error is raised: `bad-input`, `forbidden`, `limit` or `unavailable`.
---@class belvedere.xrpc
xrpc = {}

---The response of `GET /xrpc/nsid`.
---@param nsid string
---@param params? table<string, belvedere.XrpcParam|belvedere.XrpcParam[]>
---@return belvedere.XrpcAnswer
function xrpc.query(nsid, params) end

---@class belvedere.QueryCall
---@field nsid string
---@field params? table<string, belvedere.XrpcParam|belvedere.XrpcParam[]>

---The responses of up to 20 `GET /xrpc/nsid`, in the order of the calls. They are made at the same time. A call without a response is
---`{ error = { code, message } }`.
---@param calls belvedere.QueryCall[]
---@return (belvedere.XrpcAnswer|{ error: { code: string, message: string } })[]
function xrpc.query_all(calls) end

---The response of `POST /xrpc/nsid`. Needs a caller; nil in record and label events.
---@param nsid string
---@param input any The body, as JSON; nil sends none.
---@param params? table<string, belvedere.XrpcParam|belvedere.XrpcParam[]>
---@return belvedere.XrpcAnswer
function xrpc.procedure(nsid, input, params) end

-- view ---------------------------------------------------------------------------------------------------------------

---Answers of views, as sources of scripts.
---@class belvedere.view
view = {}

---The output of a query method that a view answers, with its rows and its cursor. Raises the error that a caller gets.
---@param nsid string
---@param params? table<string, belvedere.XrpcParam|belvedere.XrpcParam[]>
---@return table
function view.page(nsid, params) end

-- atproto ------------------------------------------------------------------------------------------------------------

---@class belvedere.Label
---@field src string The DID of the labeler; of the author for a self-label.
---@field uri string
---@field val string
---@field cts string When it was created, RFC 3339; empty for a self-label.

---@class belvedere.Blob
---@field size fun(self: belvedere.Blob): integer In bytes.
---@field mime_type fun(self: belvedere.Blob): string

---@class belvedere.Download
---@field handle belvedere.Blob
---@field mimeType string
---@field size integer

---Accounts, labels and blobs of the network, and signatures over records.
---@class belvedere.atproto
atproto = {}

---Origin of an account's PDS, nil when it has none. Raises `bad-input` for an invalid DID, `unavailable` when the lookup fails.
---@param did string
---@return string?
function atproto.resolve_service_endpoint(did) end

---The DID of the account that a handle belongs to, nil when it belongs to none. Verified both ways. A DID is returned unchanged.
---Raises `bad-input` for a text that is no handle, `unavailable` when the lookup fails.
---@param handle string
---@return string?
function atproto.resolve_handle(handle) end

---The handles of at most 100 accounts, verified both ways. An account without a verified handle has no entry.
---@param dids string[]
---@return table<string, string> handles by DID
---@return string[]? failed the DIDs that could not be looked up now, if there are any
function atproto.handles(dids) end

---The labels in force on a record or an account, including its author's own.
---@param uri string An at-uri or a DID.
---@return belvedere.Label[]
function atproto.get_labels(uri) end

---The same for at most 100, in one query. Every URI has an entry.
---@param uris string[]
---@return table<string, belvedere.Label[]>
function atproto.get_labels_batch(uris) end

---Downloads a blob of an account from its PDS and checks it against its CID. The bytes stay on the server.
---@param did string
---@param cid string
---@return belvedere.Download
function atproto.blob_download(did, cid) end

---Uploads a downloaded blob to the caller's PDS. Only in runs with a PDS session, else nil.
---@param handle belvedere.Blob
---@param content_type? string The blob's own when left out.
---@return table answer The response of the PDS: `blob` can be put into a record.
function atproto.blob_upload(handle, content_type) end

---Signs a record in the caller's repo with this server's key. Raises `forbidden` without a caller.
---@param record table
---@return table signature `{$type, key, signature}`, to be put into the record's `signatures`.
function atproto.sign(record) end

---Whether a signature was made by this server, for this record in this repo.
---@param record table
---@param signature table
---@param repo_did string
---@return boolean
function atproto.verify_signature(record, signature, repo_did) end

---A token with which this server calls one method of another server, under its own DID.
---@param audience string
---@param method string
---@return string
function atproto.service_token(audience, method) end

-- labels -------------------------------------------------------------------------------------------------------------

---Labels that this server issues as a labeler. Needs an identity with the key `#atproto_label`; not in queries.
labels = {}

---@class belvedere.LabelOptions
---@field cid? string The version of the record that the label applies to; all when left out.
---@field exp? string The time from which on it is no longer in force, RFC 3339. Not for `negate`.

---Applies a label to a record or an account.
---@param uri string An at-uri or a DID.
---@param val string 1 to 128 bytes.
---@param options? belvedere.LabelOptions
---@return boolean changed False when the same label was in force already.
function labels.apply(uri, val, options) end

---Negates a label that this server has applied.
---@param uri string An at-uri or a DID.
---@param val string
---@param options? belvedere.LabelOptions
---@return boolean changed False when there was none.
function labels.negate(uri, val, options) end

-- moderation ---------------------------------------------------------------------------------------------------------

---Hides and takes down records and accounts on this server; not in queries, besides `status`. The decisions are those of
---`/admin/moderation`, made by this script's trigger.
moderation = {}

---@class belvedere.ModerationOptions
---@field expires_at? string The time at which the server lifts the decision, RFC 3339; never when left out.

---@class belvedere.Decision
---@field action "hide"|"takedown"
---@field reason string
---@field created_by string The DID of an operator, or the trigger of a script.
---@field created_at string
---@field expires_at? string

---Leaves a record or an account out of lists, joins, counts and searches; a record still answers at its URI.
---@param subject string An at-uri with a DID, or a DID.
---@param reason string 1 to 2000 characters.
---@param options? belvedere.ModerationOptions
---@return boolean changed False when the same decision was in force already.
function moderation.hide(subject, reason, options) end

---Leaves a record or an account out of all answers.
---@param subject string An at-uri with a DID, or a DID.
---@param reason string 1 to 2000 characters.
---@param options? belvedere.ModerationOptions
---@return boolean changed False when the same decision was in force already.
function moderation.takedown(subject, reason, options) end

---Lifts the decision in force: the record or the account is again as the network has it.
---@param subject string An at-uri with a DID, or a DID.
---@param reason? string
---@return boolean changed False when there was none.
function moderation.lift(subject, reason) end

---The decision in force on a record or an account.
---@param subject string An at-uri with a DID, or a DID.
---@return belvedere.Decision? decision
function moderation.status(subject) end

-- atproto.spaces -----------------------------------------------------------------------------------------------------

---Permissioned spaces, as the caller sees them: what the caller may not know is as what does not exist. Errors: `bad-input`;
---`forbidden` for what the caller or its app may not do, without a caller, and while spaces are switched off; `no-session`
---in a job without `auth`.
---@class belvedere.spaces
atproto.spaces = {}

---Whether an account is a member of a space, directly or through another space.
---@param space string
---@param did string
---@return boolean
function atproto.spaces.is_member(space, did) end

---The rights of a member: `write` (whatever it reads), `read`, or `read_self` (only its own records). nil without any.
---@param space string
---@param did string
---@return "read"|"read_self"|"write"|nil
function atproto.spaces.get_access(space, did) end

---@class belvedere.Member
---@field did string
---@field access "read"|"read_self"|"write"|nil

---A page of the members of a space, by DID: 1,000 at most.
---@param space string
---@param cursor? string the cursor of the page before
---@return belvedere.Member[]
---@return string? cursor only when there are more
function atproto.spaces.list_members(space, cursor) end

---@class belvedere.SpaceQuery
---@field space_uri string
---@field collection? string of all collections when left out
---@field did? string one account's records only: a DID or a handle
---@field sortDirection? "asc"|"desc" `desc` when left out
---@field limit? integer|string 50 when left out, 100 at most
---@field cursor? string the cursor of the page before

---A page of the records in a space that the caller may read, by collection, key and author.
---@param query belvedere.SpaceQuery
---@return belvedere.Page
function atproto.spaces.query(query) end

-- Events -------------------------------------------------------------------------------------------------------------

---The event of a record or label script: the globals of the same names in one table. The change of a subscription.
---@class belvedere.RecordEvent
---@field action "create"|"update"|"delete"
---@field uri string
---@field did string the author
---@field collection string
---@field rkey string
---@field record table? nil for a delete

---A change of which a subscription sends messages.
---@class belvedere.ChangeEvent
---@field seq integer the number of the change, and of its messages
---@field action "create"|"update"|"delete"
---@field uri string
---@field did string the author
---@field collection string
---@field rkey string
---@field cid string? nil for a delete, and if it is not known
---@field record table? nil for a delete
---@field time string when the index changed

---@class belvedere.LabelEvent
---@field src string the labeler's DID
---@field uri string an at-uri, or a DID
---@field val string
---@field neg boolean whether it withdraws an earlier label
---@field cts string when it was created
---@field exp string? when it expires

---@type belvedere.RecordEvent|belvedere.LabelEvent|belvedere.ChangeEvent
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

---Queues a job of a type and returns its id. It runs on behalf of this run's caller; without one: `forbidden`. A type without
---a script is `bad-input`; an input over 64 KiB, or more than 100 queued jobs of the caller, `limit`.
---@param type string
---@param input? any
---@param options? { auth: boolean } auth: the job has the caller's PDS session
---@return string id
function jobs.create(type, input, options) end

---The running job. Only in a job's run.
---@class belvedere.Job
---@field id string
---@field input any
job = {}

---Replaces the job's progress that operators see, at most 16 KiB.
---@param value table
function job.progress(value) end

---Whether a pause or a cancellation was requested, or the server is shutting down.
---@return boolean
function job.should_stop() end

---Waits, at most an hour. Returns early when the job should stop.
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

---A repo whose owner allows this server to write to it. Errors: `forbidden` beyond the grant's scopes or when it was deleted,
---`no-session` when it must be authorized again, `upstream` for a refusal by the PDS.
---@class belvedere.LinkedRepo
---@field did string
---@field handle? string
---@field status string
---@field scopes string
---@field create_record fun(self: belvedere.LinkedRepo, fields: { collection: string, record: table, rkey?: string, validate?: boolean }): { uri: string, cid: string }
---@field put_record fun(self: belvedere.LinkedRepo, fields: { collection: string, rkey: string, record: table, swap_cid?: string, validate?: boolean }): { uri: string, cid: string }
---@field delete_record fun(self: belvedere.LinkedRepo, fields: { collection: string, rkey: string }): true
---@field upload_blob fun(self: belvedere.LinkedRepo, bytes: string, mime_type: string): table the response of the PDS
---@field call fun(self: belvedere.LinkedRepo, nsid: string, fields?: { params?: table, input?: any }): any calls a query of the PDS, or with `input` a procedure

---Repos whose owners allow this server to write to them.
---@class belvedere.linked_repos
linked_repos = {}

---All grants that this script may see.
---@return belvedere.LinkedRepoGrant[]
function linked_repos.list() end

---The linked repo of an account, or nil. Raises `no-session` when its owner must authorize it (again).
---@param did string
---@return belvedere.LinkedRepo?
function linked_repos.get(did) end

-- plugin -------------------------------------------------------------------------------------------------------------

---Functions of the installed plugins: `plugin.NAME.fn(...)`, where `_` stands for `-` in the plugin's id. A call without
---result raises an error: `bad-input` when there is no such plugin or function, `unavailable` when the plugin is paused,
---busy or has failed, `limit`, or the plugin's own.
---@class belvedere.plugin
plugin = {}
