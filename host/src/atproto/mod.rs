//! The atproto protocol's syntax, CIDs, OAuth scopes and lexicon documents. No I/O.
//!
//! Syntax types, DAG-CBOR and schema validation come from the crate `shrike`, which only this room uses.

pub mod blobs;
pub mod did;
pub mod format;
mod json;
pub mod lexicon;
pub mod record;
pub mod record_uri;
pub mod scope;
#[cfg(test)]
pub(crate) mod vectors;

pub use did::Did;
pub use format::StringFormat;
pub use lexicon::{LexiconDoc, LexiconError, LexiconKind};
pub use record_uri::RecordUri;
pub use shrike::cbor::{Cid, Codec};
pub use shrike::syntax::{AtUri, Nsid, RecordKey, SyntaxError, Tid};
