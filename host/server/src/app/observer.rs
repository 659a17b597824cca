//! Writes the stream's reports to the event log, and drops cached documents of identities that changed.

use belvedere_instance::core::Core;
use belvedere_instance::events::Event;
use belvedere_instance::indexing::{Observer, PublishedLexicon, StreamReport};
use belvedere_instance::network_lexicons::NetworkLexicons;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::gaps::Gap;
use belvedere_storage::store::index::Change;

use super::ChangedIdentities;

#[derive(Debug)]
pub(super) struct StreamObserver {
    pub(super) core: Core,
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
