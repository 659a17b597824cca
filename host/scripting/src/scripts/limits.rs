//! Every bound on a script, with the reason for its value. `docs/scripting.md` says what exceeding each one leads to.

use std::time::Duration;

use belvedere_wasm::sandbox::RESERVE_BYTES;

/// Lua VM instructions a run may execute: chunk, `handle()`, coroutines and metamethods together. Fixed by the
/// specification. The guest counts exactly; at zero it calls an import that traps.
pub const INSTRUCTIONS: u32 = 1_000_000;

/// WebAssembly fuel of a run, 0.12-0.5 s of CPU. Ordinary code within [`INSTRUCTIONS`] never uses it up (a test keeps
/// expensive loops within three quarters of it). It stops work inside one library call, which the instruction counter
/// can't see: a pathological pattern, a huge `string.rep`, a sort.
pub const FUEL: u64 = 2_000_000_000;

/// The fuel of a profiled run, as a multiple of [`FUEL`]: counting by line takes several times the fuel of the instructions.
pub const PROFILE_FUEL_FACTOR: u64 = 8;

/// Fuel between two points where a run yields its worker thread: 0.1 to 0.2 ms. The thread's other tasks wait for that
/// long. Most runs end before the first such point.
pub const FUEL_PER_YIELD: u64 = 1_000_000;

/// Guest time of a run, waits on the host not counted; for a job, the time between two calls of the host. A second
/// limit besides [`FUEL`], for a machine so slow or so busy that fuel alone would take too long.
pub const GUEST_TIME: Duration = Duration::from_secs(10);

/// Factor by which a job's fuel, guest time, host calls, rows, log lines and requests exceed those of another run: it
/// works through a collection rather than a page. Its memory is the same.
pub const JOB_FACTOR: u32 = 100;

/// Linear memory of an instance. The guest's own cap on Lua memory (32 MiB, a catchable Lua error) leaves the
/// other half for its stack, data, fragmentation and values that are crossing.
pub const LINEAR_MEMORY: usize = 64 << 20;
const _: () = assert!(LINEAR_MEMORY <= RESERVE_BYTES, "a reserve lets every run end");

/// Entries of each of the guest's function tables: many times what the compiled guest has.
pub const TABLE_ELEMENTS: usize = 20_000;

/// Memory of an instance that each run overwrites at its end and that stays mapped: the guest's C stack (256 KiB), its data and
/// prelude, whose sources are memory of the run, and a little more. More costs every run the time to write it.
pub const KEEP_RESIDENT: usize = 704 << 10;

/// Stack for WebAssembly frames: 200 nested C calls (Lua's own limit) and the JSON codec's 127 levels fit.
pub const WASM_STACK: usize = 1 << 20;

/// Stack of a run's fiber: [`WASM_STACK`] and as much again for the host's functions above it.
pub const FIBER_STACK: usize = 2 << 20;

/// Bytes of a fiber's stack that stay mapped between runs: ordinary runs use less.
pub const STACK_KEEP_RESIDENT: usize = 64 << 10;

/// Calls from a run into the host. A page of 100 rows is one call, so ordinary scripts need far fewer.
pub const HOST_CALLS: u32 = 1_000;

/// Rows a run may read from the index, over all its calls.
pub const ROWS: u64 = 10_000;

/// Bytes of rows a run may read: half of the Lua memory, which has to hold them all.
pub const ROW_BYTES: u64 = 16 << 20;

/// The longest that a run may wait for the database in all. Each statement has a deadline of its own; this bounds their
/// sum.
pub const DATABASE_TIME: Duration = Duration::from_secs(15);

/// Bytes of records in one `Record.load_all` or `db.profiles`: four pages. They have no cursor, so a larger result is refused.
pub const LOAD_BYTES: usize = 4 << 20;

/// Bytes of one DID, URI, cursor, path or NSID in a call. The longest is a URI, with 8 KiB.
pub const NAME_BYTES: usize = 8 << 10;

/// Accounts of one query or count. Each costs a look into the index, some microseconds.
pub const ACCOUNTS: usize = 10_000;

/// Bytes of the JSON of a filter: ten times the largest valid one, which has 100 conditions.
pub const FILTER_BYTES: usize = 64 << 10;

/// Bytes of the JSON of an SQL statement's parameters: as many as of one record.
pub const SQL_PARAMS_BYTES: usize = 1 << 20;

/// Bytes of the JSON of a method's parameters: eight times the longest URI over HTTP.
pub const XRPC_PARAMS_BYTES: usize = 64 << 10;

/// Bytes of the JSON input of a method: as many as over HTTP.
pub const XRPC_INPUT_BYTES: usize = 1 << 20;

/// Bytes of the JSON of a record's signature: twenty times a signature by this server.
pub const SIGNATURE_BYTES: usize = 4 << 10;

/// Memory that a run's JSON takes on the host when it is parsed, over all calls: as much as the Lua memory that it
/// comes from. One record of a MiB that consists of empty lists is within it.
pub const JSON_RUN_BYTES: u64 = 32 << 20;

/// Log lines of a run (`log`, `print`, `warn`). Each may become a row of the event log.
pub const LOG_LINES: u32 = 100;

/// Bytes of one log line; the rest is cut off.
pub const LOG_LINE_BYTES: usize = 4 << 10;

/// Requests of a run to other servers (`http.*`, blobs). Enriching a page of 100 items takes a few of them; scripts
/// are not meant to crawl.
pub const HTTP_REQUESTS: u32 = 50;

/// Requests in one `http.send_all`.
pub const HTTP_BATCH: usize = 20;

/// Requests of a batch that are sent at the same time: enough to hide one slow server among them, few enough that their
/// answers take little memory.
pub const HTTP_CONCURRENT: usize = 6;

/// Bytes of one request's or answer's body, after decompression (lua-runtime.md §12).
pub const HTTP_BODY_BYTES: usize = 5 << 20;

/// Bytes of all answers of a run: half of the Lua memory, which has to hold them all.
pub const HTTP_RUN_BYTES: usize = 16 << 20;

/// The longest an exchange may take, redirects included (lua-runtime.md §12). Connecting has its own, shorter bound.
pub const HTTP_TIME: Duration = Duration::from_secs(30);

/// The longest a run may wait for other servers in all: no caller waits longer.
pub const HTTP_RUN_TIME: Duration = Duration::from_mins(1);

/// Redirects followed for one request.
pub const HTTP_REDIRECTS: u8 = 5;

/// Bytes of one blob: the most that a PDS accepts (service.md, uploadBlob).
pub const BLOB_BYTES: usize = 50 << 20;

/// Bytes of blobs that a run may hold. They are kept in the host's memory, not in the instance's.
pub const BLOB_RUN_BYTES: usize = 50 << 20;

/// Runs that may hold blobs at once: with [`BLOB_RUN_BYTES`] the bound on the memory that blobs take.
pub const BLOB_RUNS: usize = 8;

/// Subjects in one lookup of labels: a page.
pub const LABEL_SUBJECTS: usize = 100;

/// Accounts in one `atproto.handles`: a page.
pub const HANDLE_DIDS: usize = 100;

/// The longest that one `atproto.handles` waits: the accounts of a page are usually known, and a slow domain among them
/// must not hold up the others.
pub const HANDLES_TIME: Duration = Duration::from_secs(10);

/// Accounts in one `db.profiles`: a page.
pub const PROFILE_DIDS: usize = 100;

/// Members of a space in one `atproto.spaces.list_members`: as many as over HTTP.
pub const SPACE_MEMBERS: u32 = 1_000;

/// Records in one `Record.load_all`: a page.
pub const LOAD_URIS: usize = 100;

/// Records a run may write, to repos and to the index. A PDS accepts a few thousand writes of an account per hour.
pub const RECORD_WRITES: usize = 500;

/// Bytes of the records a run writes: eight of the largest, or all of its writes with 16 KiB each.
pub const RECORD_WRITE_BYTES: usize = 8 << 20;

/// Calls of plugins' functions by a run: one for each record of a page.
pub const PLUGIN_CALLS: u32 = 100;

/// Bytes of the JSON of a plugin call's arguments: ten times a long text. Each call copies them into another instance.
pub const PLUGIN_ARGS_BYTES: usize = 256 << 10;

/// Bytes of the JSON that a plugin's function returns: four times its arguments, because text grows when it becomes
/// markup.
pub const PLUGIN_RESULT_BYTES: usize = 1 << 20;

/// Fuel that is charged for a microsecond in which a plugin computes for a run. Plugins are measured in time; scripts
/// burn about this much in a microsecond, so [`FUEL`] is a quarter of a second of a plugin.
pub const PLUGIN_FUEL_PER_MICROSECOND: u64 = 8_000;

/// Maximum depth of methods that call each other through scripts (`xrpc.*`). Each level has instances of its own.
pub const XRPC_DEPTH: u32 = 8;

/// Calls that the functions of one `parallel` make at the same time: a page needs a few answers at once, and each call may take a
/// connection of the database. The guest has the same limit (`guest-lua/c/parallel.c`).
pub const PARALLEL_CALLS: usize = 8;

/// Answers of such calls that a run has not taken: those of a round, and of one that a call in another function has made meanwhile.
pub const KEPT_ANSWERS: usize = 2 * PARALLEL_CALLS;

/// Calls in one `xrpc.query_all`.
pub const XRPC_BATCH: usize = 20;

/// Calls of a batch that are made at the same time. Each may run a script, in an instance of its own.
pub const XRPC_CONCURRENT: usize = 8;

/// Calls through `xrpc.*` by a run and by all runs below it, however deep: each of them may start a script. Each also
/// takes tokens from its caller's rate limit.
pub const XRPC_CALLS: u32 = 50;

/// The longest a run may take from beginning to end, including its waits for an instance, the database, other servers
/// and the runs that it calls. No caller waits longer, and a waiting run occupies an instance.
pub const RUN_TIME: Duration = Duration::from_mins(1);

/// The same for a run of an event: one that waits longer for other servers would only delay its repo.
pub const EVENT_TIME: Duration = Duration::from_secs(30);

/// The same for a job, which may wait for hours: a day, so that a job that waits in a loop does not occupy its worker
/// for ever.
pub const JOB_TIME: Duration = Duration::from_hours(24);

/// Bytes of a script's result: the most that an HTTP response may hold. A page of 100 records has a tenth of it.
pub const RESULT_BYTES: usize = 8 << 20;

/// Bytes of an answer that are not charged to its client: ten times a usual page. The rest takes from the client's
/// share of [`ANSWER_BYTES_PER_SECOND`].
pub const FREE_ANSWER_BYTES: usize = 256 << 10;

/// Bytes of large answers that a client's scripts may return a second on average: each is built, copied and sent while
/// other clients wait for the same memory and cores.
pub const ANSWER_BYTES_PER_SECOND: u64 = 4 << 20;

/// Bytes of the writes and log lines that a dry run's answer lists: as many as the largest result. A page can show no
/// more, and a run could otherwise make the server keep a gigabyte of statements.
pub const DRY_RUN_BYTES: usize = 4 << 20;

/// Bytes of a script's source: a hundred times a long handler.
pub const SOURCE_BYTES: usize = 512 << 10;

/// Bytes of a failure's message and traceback that are kept: a script can raise a string of megabytes.
pub const FAILURE_TEXT_BYTES: usize = 8 << 10;

/// Time for which a run of a tenant that has used up its share is held back before it is refused: a client that
/// overdrew its share only a little is slowed rather than refused, and one that retries at once sends fewer requests.
pub const THROTTLE_WAIT: Duration = Duration::from_secs(1);

/// Time for which a run is held back that has to be refused: a client that retries at once would otherwise keep a
/// processor busy with refusals.
pub const REFUSAL_PAUSE: Duration = Duration::from_millis(100);

/// Runs of one tenant that are held back; more are refused at once. Each holds a connection.
pub const THROTTLED_RUNS: u32 = 64;

/// The longest wait for an instance, or for memory: by then the caller has given up.
pub const QUEUE_WAIT: Duration = Duration::from_secs(5);
