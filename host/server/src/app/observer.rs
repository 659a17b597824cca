//! Writes the stream's reports to the event log, and drops cached documents of identities that changed.

use std::collections::HashMap;

use belvedere_instance::core::Core;
use belvedere_instance::events::Event;
use belvedere_instance::history::{History, Measure};
use belvedere_instance::indexing::{Observer, PublishedLexicon, StreamReport};
use belvedere_instance::network_lexicons::NetworkLexicons;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::gaps::Gap;
use belvedere_storage::store::index::Change;

use super::changed_identities::ChangedIdentities;

#[derive(Debug)]
pub(super) struct StreamObserver {
    pub(super) core: Core,
    /// Counts the records of each collection.
    pub(super) history: History,
    /// Announced to the other hosts.
    pub(super) identities: ChangedIdentities,
    /// Accounts whose sessions are checked.
    pub(super) may_have_moved: ChangedIdentities,
    /// Accounts whose handles and PDSs are forgotten.
    pub(super) renamed: ChangedIdentities,
    pub(super) network_lexicons: NetworkLexicons,
}

impl Observer for StreamObserver {
    fn report(&self, report: StreamReport) {
        let event = match report {
            StreamReport::Connected { url } => Event::JetstreamConnected { url },
            StreamReport::Disconnected { reason } => Event::JetstreamDisconnected { reason },
            StreamReport::Gap { url, gap: Gap { reason, from, to } } => {
                Event::StreamGap { url, reason: reason.as_str(), from, to }
            }
            StreamReport::CidMismatch { uri, claimed_cid, reason } => {
                Event::RecordCidMismatch { uri, claimed_cid, reason }
            }
            StreamReport::AccountStatus { did, status } => {
                Event::AccountStatusChanged { did, status: status.as_str() }
            }
            StreamReport::Rejected { uri, reason } => Event::RecordRejected { uri, reason },
        };
        self.core.events.record(event);
    }

    fn committed(&self, changes: &[Change]) {
        self.count(changes);
        if !self.core.events.is_verbose() {
            return;
        }
        for change in changes {
            let uri = change.uri.clone();
            self.core.events.record(match change.record {
                Some(_) => Event::RecordCreated { uri },
                None => Event::RecordDeleted { actor: None, uri, reason: None },
            });
        }
    }

    fn identity_changed(&self, did: &Did) {
        self.identities.note(did);
        let (resolver, did) = (self.core.resolver.clone(), did.clone());
        let (may_have_moved, renamed) = (self.may_have_moved.clone(), self.renamed.clone());
        tokio::spawn(async move {
            resolver.invalidate(&did).await;
            // Neither may find the old document.
            may_have_moved.note(&did);
            renamed.note(&did);
        });
    }
    fn lexicon_published(&self, published: PublishedLexicon) {
        self.network_lexicons.published(published);
    }
}

impl StreamObserver {
    /// Adds a batch to the history, with one addition for each collection.
    fn count(&self, changes: &[Change]) {
        let mut counts: HashMap<(&str, bool), i64> = HashMap::new();
        for change in changes {
            *counts.entry((change.uri.collection.as_str(), change.record.is_some())).or_default() += 1;
        }
        for ((collection, is_written), count) in counts {
            let measure = if is_written { Measure::RecordsWritten } else { Measure::RecordsDeleted };
            self.history.record(measure, collection, count, 0.0);
        }
    }
}
