//! The registry of lexicons, in memory and always replaced as a whole; validation of records, again after a change;
//! authorities of other NSIDs, and the rules for forwarding methods to them.

mod authority;
mod fields;
mod fingerprint;
mod followed;
pub mod forwarding;
mod registry;
pub mod revalidation;
mod schema;

pub use authority::{Authorities, AuthorityError};
pub use followed::{Followed, PUBLISHED_LEXICONS};
pub use forwarding::ForwardingRules;
pub use registry::{Lexicon, Mismatch, ProcedureAction, Registry, Snapshot};
