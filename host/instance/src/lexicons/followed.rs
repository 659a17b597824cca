//! The events that the stream has to deliver.

use std::sync::Arc;

use belvedere_protocol::atproto::Nsid;

/// The collection of the records that publish lexicons on the network; the record key is the lexicon's NSID.
pub const PUBLISHED_LEXICONS: &str = "com.atproto.lexicon.schema";

/// The collections to index, and whether to watch for lexicons that are published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// Sorted.
    pub collections: Arc<[Nsid]>,
    /// Whether a lexicon here is one of the network, so that its changes have to be noticed.
    pub published_lexicons: bool,
}

impl From<Arc<[Nsid]>> for Followed {
    fn from(collections: Arc<[Nsid]>) -> Self {
        Self { collections, published_lexicons: false }
    }
}

impl Followed {
    /// Whether no event would be of use.
    pub fn is_nothing(&self) -> bool {
        self.collections.is_empty() && !self.published_lexicons
    }
}
