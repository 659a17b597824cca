//! Announces changed identities to the other hosts. Only the host that follows the stream receives identity events; the
//! others drop the documents that it names from their caches.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Topic;
use crate::atproto::Did;
use crate::store::Db;
use crate::store::notices::announce;

/// Interval between announcements. The network has a few identity events a second, and a host that catches up with a
/// day receives thousands: one notice carries many.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(1);

/// DIDs that wait for the next announcement. Beyond it, cached documents expire by themselves within a quarter of an
/// hour.
const MAX_WAITING: usize = 10_000;

/// DIDs in one notice: PostgreSQL accepts 8,000 bytes, and a DID has some 32.
const MAX_PER_NOTICE: usize = 100;
/// Longest DID that is announced, in bytes. DIDs of the network are shorter.
const MAX_DID_BYTES: usize = 70;

/// DIDs whose documents have changed. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangedIdentities(Arc<Mutex<HashSet<Did>>>);

impl ChangedIdentities {
    /// Adds a DID to the next announcement. Never blocks, because the stream calls it.
    pub(super) fn note(&self, did: &Did) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() < MAX_WAITING && did.as_str().len() <= MAX_DID_BYTES {
            noted.insert(did.clone());
        }
    }

    /// Announces to the other hosts, until `stop`.
    pub(super) async fn announce(self, db: Db, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(ANNOUNCE_EVERY)).await.is_some() {
            for topic in self.take() {
                if let Err(error) = announce(&db, &topic.to_string()).await {
                    tracing::debug!(%error, "changed identities can't be announced: other hosts keep their documents until they expire");
                    break;
                }
            }
        }
    }

    fn take(&self) -> Vec<Topic> {
        let noted = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let noted: Vec<Did> = noted.into_iter().collect();
        noted.chunks(MAX_PER_NOTICE).map(|dids| Topic::Identities(dids.to_vec())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_stay_below_the_limit_of_postgresql() {
        let identities = ChangedIdentities::default();
        for n in 0..=MAX_PER_NOTICE {
            let did = format!("did:plc:{n:0>62}");
            assert_eq!(did.len(), MAX_DID_BYTES);
            identities.note(&Did::try_from(did.as_str()).unwrap());
        }
        identities.note(&Did::try_from(format!("did:plc:{:0>63}", 1).as_str()).unwrap());
        let notices = identities.take();
        assert_eq!(notices.len(), 2);
        assert!(notices.iter().all(|notice| notice.to_string().len() < 8_000));
        assert!(identities.take().is_empty());
    }
}
