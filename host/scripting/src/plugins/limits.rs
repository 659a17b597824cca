//! The limits of plugins. Each is a constant with its reason.

use std::time::Duration;

use belvedere_wasm::sandbox::RESERVE_BYTES;

/// Bytes of a module: three times a JavaScript engine with a program in it.
pub const MODULE_BYTES: usize = 32 << 20;

/// Functions of a module. A JavaScript engine has some 13,000.
pub const FUNCTIONS: u32 = 200_000;

/// Bytes of one function: six times the largest of a JavaScript engine.
pub const FUNCTION_BYTES: usize = 1 << 20;

/// Loops of one function: four times the most in a JavaScript engine. The compiler needs the square of that.
pub const LOOPS: u64 = 1_600;

/// Loops of a function that are in each other: five times the most in a JavaScript engine. 250 with 200 local variables, three
/// kilobytes, take half a minute.
pub const NESTED_LOOPS: usize = 32;

/// Blocks of a function that are in each other. The compiler needs the square of that. Go has one for each place where a
/// function may wait.
pub const NESTED_BLOCKS: usize = 20_000;

/// Local variables of a function, multiplied by its branches: the compiler keeps a value of each at each, in some 30 bytes.
/// Ten times the largest of a JavaScript engine, with 118 variables and 7,257 branches, at most.
pub const LOCALS_BY_BRANCHES: u64 = 10_000_000;

/// Local variables of a function, multiplied by its loops, each of which may change all of them: twice the most in a
/// JavaScript engine. Twice as many again take half a minute.
pub const LOCALS_BY_LOOPS: u64 = 100_000;

/// Processor time that compiling a module may take: several times a JavaScript engine's. Others wait for as long.
pub const COMPILE_TIME: Duration = Duration::from_mins(1);

/// Time from beginning to end for the same: a compiler that gets a third of a core still finishes.
pub const COMPILE_MAX_WAIT: Duration = Duration::from_mins(3);

/// Memory that compiling a module may take on a large server: several times a JavaScript engine's.
pub const COMPILE_MEMORY: u64 = 1 << 30;

/// The compiler may take one part in so many of a small server's memory: it runs beside the server, and only for a
/// moment.
pub const COMPILE_MEMORY_PART: u64 = 2;

/// Bytes of the machine code of a module: it has up to ten times the size of its module, and is held in memory once.
pub const MACHINE_CODE_BYTES: usize = 256 << 20;

/// Maximum depth of components in components. The tools make two levels.
pub const NESTED_COMPONENTS: usize = 8;

/// Memory of an instance.
pub const LINEAR_MEMORY: usize = 64 << 20;
const _: () = assert!(LINEAR_MEMORY <= RESERVE_BYTES, "a reserve lets every call end");

/// Memory that a call takes before it begins, at most, if the call before it needed as much. A call that finds none then
/// has changed nothing yet. More would let a few large calls of one user keep others waiting.
pub const EXPECTED_MEMORY: usize = 16 << 20;

/// Entries of each table: three times the functions of a JavaScript engine.
pub const TABLE_ELEMENTS: usize = 100_000;

/// Memory of an instance that each call overwrites at its end and that stays mapped. None: a module's stack of a mebibyte comes
/// first, of which most calls use a few pages, so page faults for those cost less.
pub const KEEP_RESIDENT: usize = 0;

/// Stack for WebAssembly frames: a JavaScript engine recurses deeply.
pub const WASM_STACK: usize = 1 << 20;

/// Stack of a call's fiber: [`WASM_STACK`] and as much again for the host's functions above it.
pub const FIBER_STACK: usize = 2 << 20;

/// Bytes of a fiber's stack that stay mapped between calls: ordinary calls use less.
pub const STACK_KEEP_RESIDENT: usize = 64 << 10;

/// Interval at which running guests yield, so that calls that compute for long leave the processor to others.
pub const TICK: Duration = Duration::from_micros(250);

/// Guest time of a call, without waits for the host: a thousand times what an ordinary call needs.
pub const GUEST_TIME: Duration = Duration::from_secs(5);

/// The same for a page of a sync, which may parse megabytes.
pub const SYNC_GUEST_TIME: Duration = Duration::from_secs(30);

/// The longest a call may take, waits for a permit and for other servers included: no caller waits longer.
pub const CALL_TIME: Duration = Duration::from_mins(1);

/// Bytes that a plugin hands to the host in one call, and in its result: the largest body of a request, and the rest of
/// the request.
pub const HANDED_OVER_BYTES: usize = 12 << 20;

/// Time of all timers of a call. A program that waits for longer than a moment keeps its instance from others.
pub const TIMERS: Duration = Duration::from_secs(5);

/// Resources of WASI (streams, timers) that a call may hold.
pub const RESOURCES: usize = 1_000;

/// Calls of one plugin that run at the same time: a slow plugin occupies few instances.
pub const CALLS_PER_PLUGIN: usize = 4;

/// Calls of one plugin that one tenant may have running, so that the plugin's other permits stay free for others.
pub const CALLS_PER_TENANT: usize = 2;

/// Calls of one tenant to one plugin that may wait: a page of results, each of which calls a library.
pub const WAITING_PER_TENANT: usize = 32;

/// Calls of one plugin that may wait.
pub const WAITING_PER_PLUGIN: usize = 256;

/// The longest wait for a permit.
pub const QUEUE_WAIT: Duration = Duration::from_secs(10);

/// Traps in a row after which a plugin is paused: one may be an accident, and each takes up to [`GUEST_TIME`] from others.
/// They must come from two tenants, unless only one has called the plugin since it was loaded.
pub const TRAPS: u32 = 3;

/// Log lines of a call; each may become a row of the event log.
pub const LOG_LINES: u32 = 100;

/// Bytes of a log line's message, and of its fields.
pub const LOG_LINE_BYTES: usize = 4 << 10;

/// Bytes of a message before it is cut to [`LOG_LINE_BYTES`]. All of it is searched for secrets first.
pub const LOG_MESSAGE_BYTES: usize = 16 << 10;

/// Random bytes in one call of `clock.random`.
pub const RANDOM_BYTES: u32 = 64 << 10;

/// Requests of a call to other servers, redirects included (plugins.md §8).
pub const HTTP_REQUESTS: u32 = 50;

/// Requests in one `send-all`.
pub const HTTP_BATCH: usize = 20;

/// Requests of a batch that are sent at the same time.
pub const HTTP_CONCURRENT: usize = 6;

/// Bytes of one request's or response's body, after decompression (plugins.md §8).
pub const HTTP_BODY_BYTES: usize = 10 << 20;

/// Bytes of all responses of a batch: the plugin's memory has to hold them, and so has ours.
pub const HTTP_BATCH_BYTES: usize = 24 << 20;

/// Headers of a request, and their bytes: as many as servers accept.
pub const HTTP_HEADERS: usize = 64;
pub const HTTP_HEADER_BYTES: usize = 16 << 10;

/// Time of a request when the plugin names none, and the most that it may name.
pub const HTTP_TIME: Duration = Duration::from_secs(10);
pub const HTTP_MAX_TIME: Duration = Duration::from_secs(30);

/// Redirects followed for one request.
pub const HTTP_REDIRECTS: u8 = 5;

/// Bytes of keys and values of one plugin for one account, or for no account.
pub const KV_BYTES: i64 = 1 << 20;

/// The same for one sign-in, which anybody can begin: a verifier and a nonce.
pub const KV_FLOW_BYTES: i64 = 64 << 10;

/// Keys of one plugin for one account: rows cost more than their bytes.
pub const KV_KEYS: i64 = 1_000;

/// Values that a call may write. Each is a transaction of the database, which may have one writer.
pub const KV_WRITES: u32 = 50;

/// Values that are written at the same time, of all plugins and of one: the database has other writers too.
pub const KV_WRITERS: usize = 4;
pub const KV_WRITERS_PER_PLUGIN: usize = 2;

/// Seconds after which the values of a user without a linked account are gone: who never links leaves nothing.
pub const KV_UNLINKED_SECONDS: u32 = 24 * 60 * 60;

/// Bytes of a key.
pub const KV_KEY_BYTES: usize = 512;

/// Seconds after which a value of a sign-in is gone at the latest: the sign-in ends after 10 minutes.
pub const KV_FLOW_SECONDS: u32 = 15 * 60;

/// Calls of `kv`, `lookup` and `attest` in one call. Each is a statement of the database, or a signature.
pub const HOST_CALLS: u32 = 2_000;

/// Calls of `lookup` in one call. Each may scan a collection: a page of items that refer to records of others.
pub const LOOKUPS: u32 = 200;

/// Bytes of a record: as many as the index stores.
pub const RECORD_BYTES: usize = 1 << 20;

/// Items in a page of a sync.
pub const PAGE_ITEMS: usize = 1_000;

/// Bytes of a page's cursor.
pub const CURSOR_BYTES: usize = 8 << 10;

/// Bytes of a token: several times the longest in use.
pub const TOKEN_BYTES: usize = 64 << 10;

/// Bytes of a short text, such as an account's id.
pub const TEXT_BYTES: usize = 1 << 10;

/// Bytes of a URL.
pub const URL_BYTES: usize = 8 << 10;

/// Bytes of a long text for people, such as an error's message or a JSON Schema.
pub const LONG_TEXT_BYTES: usize = 16 << 10;

/// Bytes of the result of a library's function.
pub const RESULT_BYTES: usize = 4 << 20;

/// Functions of a library, and parameters of one.
pub const LIBRARY_FUNCTIONS: usize = 100;
pub const PARAMETERS: usize = 16;
