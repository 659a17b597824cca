//! The protocol's syntax, CIDs and lexicon documents. No I/O.
//!
//! Syntax types, DAG-CBOR and schema validation come from `shrike`; only this room names that crate.

pub mod blobs;
pub mod lexicon;
pub mod record;
pub mod record_uri;

pub use lexicon::{LexiconDoc, LexiconError, LexiconKind};
pub use record_uri::RecordUri;
pub use shrike::cbor::Cid;
pub use shrike::syntax::{AtUri, Did, Nsid, RecordKey, SyntaxError, Tid};
