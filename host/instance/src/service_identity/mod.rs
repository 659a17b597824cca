//! The identity under which other servers know the instance: its DID, its keys, and the services in its DID document
//! (admin-api.md §10 and §11; docs/adr/0056).
//!
//! [`ServiceIdentity`] answers from memory which audiences and methods service tokens are valid for. [`Setup`] changes
//! the identity, and [`plc`] signs and sends operations of the PLC directory.

mod current;
mod document;
mod entry;
mod keys;
mod mode;
pub mod plc;
mod publication;
mod setup;
mod token;

pub use current::{Additions, BUILT_IN, LABEL_KEY, LABELER, Labeler, SPACE_HOST, ServiceIdentity};
pub use document::document;
pub use entry::{AccessMode, Entry, parse_fragment};
pub use mode::Mode;
pub use setup::{IdentityChange, Setup, SetupError};
pub use token::TokenError;
