---@meta
-- The globals of test files, for `belvedere script test` (docs/scripting/tests.md).

---Adds a test. Each runs in a sandbox and on a database of its own.
---@param name string
---@param run fun()
function test(name, run) end

---Runs before each test of the file, in the order of the calls.
---@param run fun()
function before_each(run) end

---@class belvedere.Expectation
---@field equals fun(expected: any) The value is equal, in all fields.
---@field differs fun(other: any) The value is not equal.
---@field includes fun(part: any) The text has the part; the table has its fields; or the array has such an element.
---@field matches fun(pattern: string) The text matches a Lua pattern.
---@field fails fun(text?: string) The function raises an error, whose message has the text.

---Checks a value: the test fails at this line, with both values.
---@param value any
---@return belvedere.Expectation
function expect(value) end

---What exists before a script runs.
given = {}

---An account, with a DID document at the PLC directory or its web server.
---@param account { did: string, handle?: string, pds?: string }
---@return string did
function given.account(account) end

---A record in the index, checked against its lexicon. `$type` may be left out.
---@param uri string
---@param record table
---@return string uri
function given.record(uri, record) end

---A label in force, of a labeler.
---@param label { uri: string, val: string, src?: string, cid?: string, neg?: boolean, cts?: string, exp?: string }
function given.label(label) end

---A script variable, which scripts read in `env`.
---@param name string
---@param value string
function given.variable(name, value) end

---A setting of the instance, such as `profile_collection`.
---@param name string
---@param value string
function given.setting(name, value) end

---The target collection of a method.
---@param method string
---@param collection string
function given.target(method, collection) end

---The time, which stands still. A test begins at 2026-01-01T00:00:00Z.
---@param time string
function given.time(time) end

---Begins the random numbers of a seed.
---@param seed integer
function given.random(seed) end

---The answer to a request, "URL" or "METHOD URL". Several answers to one request are given one after the other, and the last stays.
---@param request string
---@param answer { status?: integer, headers?: table<string, string>, body?: string|table, fails?: string }
function given.http(request, answer) end

---The answer of the PDS to a method, instead of its own.
---@param method string
---@param answer { status?: integer, body?: string|table }
function given.pds(method, answer) end

---A space that this server hosts. Its creator, by default its authority, reads and writes everything in it. Members are DIDs, or addresses of spaces
---whose members they are. Records in it are given by `given.record`, with an author who may write.
---@param space string at://AUTHORITY/space/TYPE/KEY
---@param options? { creator?: string, members?: table<string, "write"|"read"|"read_self"|"none">, public?: boolean }
---@return string space
function given.space(space, options) end

---The answer of a plugin's function, in place of an installed plugin: a result or an error, to all calls or to those with these `args`. Several answers
---are given one after the other, and the last stays.
---@param plugin string
---@param name string The name of the function.
---@param answer { result?: any, args?: any[], fails?: { code: string, message?: string, status?: integer } }
function given.plugin(plugin, name, answer) end

---@class belvedere.CallOptions
---@field as? string The account that calls.
---@field session? boolean Whether it has a session with its PDS; true when absent.

---@class belvedere.ProcedureOptions : belvedere.CallOptions
---@field params? table

---@class belvedere.TestAnswer
---@field status integer
---@field body any
---@field instructions? integer The instructions that the method's script executed.
---@field error? string The error with which the script failed.

---@class belvedere.TestOutcome
---@field outcome "stored"|"skipped"|"deleted"|"dropped"
---@field record? table
---@field label? table
---@field instructions? integer
---@field error? string

---@class belvedere.TestJob
---@field type string
---@field status "pending"|"completed"|"failed"
---@field input any
---@field progress any
---@field result? any
---@field error? string

---Calls of methods, events and jobs, answered as the server answers them.
call = {}

---@param nsid string
---@param params? table
---@param options? belvedere.CallOptions
---@return belvedere.TestAnswer
function call.query(nsid, params, options) end

---@param nsid string
---@param input? any
---@param options? belvedere.ProcedureOptions
---@return belvedere.TestAnswer
function call.procedure(nsid, input, options) end

---An event of a record: runs its script, and applies the decision to the index.
---@param action "create"|"update"|"delete"
---@param uri string
---@param record? table
---@return belvedere.TestOutcome
function call.record(action, uri, record) end

---@class belvedere.TestChange
---@field action "create"|"update"|"delete"
---@field uri string
---@field record? table
---@field seq? integer 1 when left out

---@class belvedere.TestMessages
---@field messages table[] As clients get them.
---@field invalid table The reasons why other messages are left out.
---@field instructions? integer
---@field error? string The error with which the script failed.

---A change of which a subscription sends messages: runs its script. The index is not changed: see `given.record`.
---@param nsid string
---@param event belvedere.TestChange
---@param params? table
---@return belvedere.TestMessages
function call.change(nsid, event, params) end

---A label that a labeler has sent: runs its script, and applies the decision.
---@param label { uri: string, val: string, src?: string, cid?: string, neg?: boolean, cts?: string, exp?: string }
---@return belvedere.TestOutcome
function call.label(label) end

---Queues a job, and runs all that are queued.
---@param name string
---@param input? any
---@param options? belvedere.CallOptions
---@return belvedere.TestJob
function call.job(name, input, options) end

---The job of a schedule.
---@param name string
---@return belvedere.TestJob
function call.schedule(name) end

---Runs the jobs that scripts have queued. Returns how many.
---@return integer
function call.jobs() end

---What the scripts have done.
seen = {}

---The accepted writes to PDSs: `{ kind = "create"|"update"|"delete", uri, cid, record }`.
---@return table[]
function seen.writes() end

---The requests to other servers: `{ method, url, headers, body }`.
---@return table[]
function seen.requests() end

---The log lines: `{ level = "debug"|"info"|"warn", trigger, message }`.
---@return table[]
function seen.logs() end

---The jobs, oldest first.
---@return belvedere.TestJob[]
function seen.jobs() end

---The calls of plugins: `{ plugin, function, args }`.
---@return table[]
function seen.plugins() end

---All records of a space: `{ uri, cid, record }`.
---@param space string
---@return table[]
function seen.space(space) end
