//! Every bound on a view, with the reason for its value.

/// Bytes of a document. The largest that people write are a tenth of it.
pub const DOCUMENT_BYTES: usize = 64 << 10;

/// Additions of a view, nested ones included: each is a statement for a page.
pub const ADDITIONS: usize = 10;

/// Levels of additions: those of the rows, and two levels of additions of joined rows.
pub const LEVELS: usize = 3;

/// Records of a `list` for each row.
pub const LIST: u32 = 50;

/// Records of a `list` without a limit.
pub const LIST_DEFAULT: u32 = 10;

/// Records of a tree, and without a limit.
pub const TREE: u32 = 1_000;
pub const TREE_DEFAULT: u32 = 200;

/// Bytes of the records of a tree, which ends where it would have more: a half of [`BYTES`] is left for its additions.
pub const TREE_BYTES: usize = BYTES / 2;

/// Levels of a tree below its root, and without a depth: each is a statement.
pub const DEPTH: u32 = 20;
pub const DEPTH_DEFAULT: u32 = 6;

/// Labels and lists in `hide`: each is a condition for every row that is read.
pub const HIDE: usize = 10;

/// Accounts of a list such as a timeline or the viewer's blocks, the newest. Each costs a look into the index.
pub const ACCOUNTS: usize = 10_000;

/// Added records of an answer: as many as a script may read. Further ones are left out.
pub const ROWS: usize = 10_000;

/// Bytes of the added records of an answer, each counted for each row that shows it. Further ones are left out.
pub const BYTES: usize = 4 << 20;

/// Bytes of an added record. A larger one is left out, because any account may write one.
pub const RECORD_BYTES: usize = 64 << 10;

/// Bytes after which an answer has no more additions. A joined row that many rows show is written for each, with its own additions.
pub const ANSWER_BYTES: usize = 4 * BYTES;

/// Accounts whose PDS one answer looks up for the URLs of their blobs.
pub const BLOB_HOSTS: usize = 100;

/// Offences that are listed of one document.
pub const OFFENCES: usize = 50;
