//! The uploaded lexicons as requests and the stream need them: in memory, swapped as a whole, never half updated.

mod registry;

pub use registry::{Lexicon, Registry, Snapshot};
