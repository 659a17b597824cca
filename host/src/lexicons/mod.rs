//! The uploaded lexicons as requests and the stream need them: in memory, swapped as a whole, never half updated.

mod authority;
pub mod forwarding;
mod registry;
mod schema;

pub use authority::{Authorities, Authority, AuthorityError};
pub use forwarding::ForwardingRules;
pub use registry::{Action, Lexicon, Registry, Snapshot};
