//! Lexicons that follow their publishers on the network (`admin-api.md` §7, `indexing.md` §6).
//!
//! DNS names the publisher of a lexicon, an account whose repo has the document. [`resolve`] finds and checks it;
//! [`refresh`] compares it with the stored one and decides what applies; [`worker`] refreshes after events of the stream,
//! at the start and daily.

mod refresh;
mod resolve;
mod worker;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::core::Core;
use crate::indexing::PublishedLexicon;
use crate::lexicons::Authorities;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Nsid;

pub use resolve::ResolveError;
pub use worker::Reload;

/// The lexicons that follow the network. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NetworkLexicons {
    core: Core,
    authorities: Authorities,
    noticed: Arc<Noticed>,
    started_at: Timestamp,
}

/// Lexicons whose publisher changed them, until they are refreshed. Bounded by the number of lexicons that are followed.
#[derive(Debug, Default)]
struct Noticed {
    /// Whether the last change was a deletion.
    deleted: Mutex<HashMap<Nsid, bool>>,
    added: Notify,
}

impl NetworkLexicons {
    pub fn new(core: Core, authorities: Authorities) -> Self {
        Self { started_at: core.clock.now(), core, authorities, noticed: Arc::default() }
    }

    /// Takes note of a change on the network. Changes by accounts that do not publish the lexicon are ignored.
    pub fn published(&self, published: PublishedLexicon) {
        let PublishedLexicon { did, nsid, is_deletion } = published;
        if self.core.registry.snapshot().authority(nsid.as_str()) != Some(&did) {
            return;
        }
        let mut deleted = self.noticed.deleted.lock().unwrap_or_else(PoisonError::into_inner);
        deleted.insert(nsid, is_deletion);
        self.noticed.added.notify_one();
    }

    /// Takes the changes that were noticed since the last call.
    fn take_noticed(&self) -> HashMap<Nsid, bool> {
        std::mem::take(&mut self.noticed.deleted.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
