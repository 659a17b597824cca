//! The limits of statements.

/// Maximum size of a statement, in bytes: a long report has a few thousand.
pub const MAX_BYTES: usize = 16 << 10;
/// Maximum number of tokens of a statement, without whitespace. Limits the depth of operator chains, which the parser
/// builds without recursion.
pub(super) const MAX_TOKENS: usize = 2_500;
/// Maximum nesting depth in the parser.
pub(super) const PARSER_DEPTH: usize = 40;
/// Maximum depth of the parsed statement, to which the checks recurse on a worker's stack. Each operator of a chain
/// like `a AND b AND c` adds a level.
pub(super) const MAX_DEPTH: u32 = 150;
/// Maximum number of parameters of a statement: enough for a batch of some hundred rows.
pub const MAX_PARAMS: usize = 1_000;

/// Maximum size of a text parameter, in bytes: that of a record.
pub const MAX_PARAM_BYTES: usize = 1 << 20;
/// Maximum number of functions, casts, and operators on texts in one statement. For the largest values a step of SQLite
/// or an arrow (`->`) of PostgreSQL takes some milliseconds, and all of them may run between two checks of the
/// deadline.
pub const MAX_CALLS: u32 = 100;

/// Maximum number of expressions of a statement after the database has replaced the columns of subqueries with their
/// expressions. A few nested subqueries that use each column twice would grow to millions, and gigabytes, before the
/// first row is read.
pub(super) const MAX_NODES: u32 = 20_000;

/// The views that scripts may read. They can't be written.
pub const VIEWS: [&str; 5] = ["accounts", "labels", "lexicons", "record_refs", "records"];
/// Prefix of the names of the scripts' own tables and indexes.
pub const OWN_PREFIX: &str = "script_";
