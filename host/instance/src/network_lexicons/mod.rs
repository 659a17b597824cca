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

use crate::events::EventLog;
use crate::identity::Resolver;
use crate::indexing::PublishedLexicon;
use crate::lexicons::{Authorities, Registry};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_protocol::atproto::Nsid;
use belvedere_storage::store::Db;
use belvedere_web::net;

pub use resolve::ResolveError;
pub use worker::Reload;

/// What this room needs from the rest of the server.
#[derive(Clone, Debug)]
pub struct Deps {
    pub db: Db,
    pub net: net::Client,
    pub resolver: Resolver,
    pub authorities: Authorities,
    pub registry: Arc<Registry>,
    pub events: EventLog,
    pub clock: Clock,
    pub random: Random,
}

/// The lexicons that follow the network. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NetworkLexicons {
    deps: Deps,
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
    pub fn new(deps: Deps) -> Self {
        Self { started_at: deps.clock.now(), deps, noticed: Arc::default() }
    }

    /// Takes note of a change on the network. Changes by accounts that do not publish the lexicon are ignored.
    pub fn published(&self, published: PublishedLexicon) {
        let PublishedLexicon { did, nsid, is_deletion } = published;
        if self.deps.registry.snapshot().authority(nsid.as_str()) != Some(&did) {
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
