//! The tasks after identity events, which only the host that follows the stream receives: the other hosts drop the
//! documents that it announces from their caches, the sessions of accounts that have moved end, and stored handles are
//! verified again.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Topic;
use belvedere_instance::pds::Vault;
use belvedere_instance::people::People;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::Db;
use belvedere_storage::store::notifications::announce;

/// Interval between announcements, and between checks of sessions. The network has a few identity events a second, and a
/// host that catches up with a day receives thousands: one notification carries many.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(1);

/// DIDs that wait for the next announcement or check. Beyond it, cached documents expire by themselves within a quarter
/// of an hour, and sessions are checked before their next call.
const MAX_WAITING: usize = 10_000;

/// DIDs in one notification: PostgreSQL accepts 8,000 bytes, and a DID has some 32.
const MAX_PER_NOTIFICATION: usize = 100;

/// Longest DID that is announced, in bytes. DIDs of the network are shorter.
const MAX_DID_BYTES: usize = 70;

/// DIDs whose documents have changed. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangedIdentities(Arc<Mutex<HashSet<Did>>>);

impl ChangedIdentities {
    /// Adds a DID to the next announcement or check. Never blocks, because the stream calls it.
    pub(super) fn note(&self, did: &Did) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() < MAX_WAITING {
            noted.insert(did.clone());
        }
    }

    /// Announces to the other hosts, until `stop`.
    pub(super) async fn announce(self, db: Db, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(ANNOUNCE_EVERY)).await.is_some() {
            for topic in self.take_notifications() {
                if let Err(error) = announce(&db, &topic.to_string()).await {
                    tracing::debug!(%error, "changed identities can't be announced: other hosts keep their documents until they expire");
                    break;
                }
            }
        }
    }

    /// Ends the sessions of accounts that have moved, until `stop`.
    pub(super) async fn check_sessions(self, vault: Vault, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(ANNOUNCE_EVERY)).await.is_some() {
            for dids in self.take().chunks(MAX_PER_NOTIFICATION) {
                match stop.run_until_cancelled(vault.check_accounts(dids)).await {
                    None => return,
                    Some(Ok(())) => {}
                    Some(Err(error)) => {
                        tracing::warn!(%error, "sessions can't be checked after identity events: they are before their next call");
                    }
                }
            }
        }
    }

    /// Forgets the handles of accounts, and looks up those that were known, until `stop`.
    pub(super) async fn refresh_handles(self, people: People, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(ANNOUNCE_EVERY)).await.is_some() {
            for dids in self.take().chunks(MAX_PER_NOTIFICATION) {
                match stop.run_until_cancelled(people.identities_changed(dids)).await {
                    None => return,
                    Some(Ok(())) => {}
                    Some(Err(error)) => {
                        tracing::warn!(%error, "handles can't be forgotten after identity events: they count for a day");
                    }
                }
            }
        }
    }

    fn take(&self) -> Vec<Did> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_iter().collect()
    }

    fn take_notifications(&self) -> Vec<Topic> {
        let mut noted = self.take();
        noted.retain(|did| did.as_str().len() <= MAX_DID_BYTES);
        noted.chunks(MAX_PER_NOTIFICATION).map(|dids| Topic::Identities(dids.to_vec())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_stay_below_the_limit_of_postgresql() {
        let identities = ChangedIdentities::default();
        for n in 0..=MAX_PER_NOTIFICATION {
            let did = format!("did:plc:{n:0>62}");
            assert_eq!(did.len(), MAX_DID_BYTES);
            identities.note(&Did::try_from(did.as_str()).unwrap());
        }
        let long = Did::try_from(format!("did:plc:{:0>63}", 1).as_str()).unwrap();
        identities.note(&long);
        let notifications = identities.take_notifications();
        assert_eq!(notifications.len(), 2);
        assert!(notifications.iter().all(|notification| notification.to_string().len() < 8_000));
        assert!(identities.take().is_empty());
        // It is checked nevertheless.
        identities.note(&long);
        assert_eq!(identities.take(), [long]);
    }
}
