//! The registry of uploaded lexicons, in memory and always replaced as a whole; authorities of other NSIDs, and the
//! rules for forwarding methods to them.

mod authority;
mod followed;
pub mod forwarding;
mod registry;
mod schema;

pub use authority::{Authorities, AuthorityError};
pub use followed::{Followed, PUBLISHED_LEXICONS};
pub use forwarding::ForwardingRules;
pub use registry::{Lexicon, ProcedureAction, Registry};
