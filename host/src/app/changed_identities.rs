//! Identity events reach the host that follows the stream. The others hear from it whose documents to forget.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Topic;
use crate::atproto::Did;
use crate::store::Db;
use crate::store::notices::announce;

/// The network has a few of these events a second, and a host that catches up with a day sees thousands: they are told
/// together.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// DIDs remembered until then. Documents of more expire by themselves, in a quarter of an hour.
const MOST: usize = 10_000;

/// DIDs in one notice: PostgreSQL takes 8,000 bytes, and a DID has some 32.
const TOGETHER: usize = 100;
/// A longer one is not told: none of the network is.
const LONGEST: usize = 70;

/// DIDs whose documents have changed. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangedIdentities(Arc<Mutex<HashSet<Did>>>);

impl ChangedIdentities {
    /// Never blocks, so that the stream may call it.
    pub(super) fn note(&self, did: &Did) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() < MOST && did.as_str().len() <= LONGEST {
            noted.insert(did.clone());
        }
    }

    /// Tells the other hosts, until `stop`.
    pub(super) async fn tell(self, db: Db, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(TELL_EVERY)).await.is_some() {
            for topic in self.take() {
                if let Err(error) = announce(&db, &topic.to_string()).await {
                    tracing::debug!(%error, "other hosts keep documents that have changed until they expire");
                    break;
                }
            }
        }
    }

    fn take(&self) -> Vec<Topic> {
        let noted = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let noted: Vec<Did> = noted.into_iter().collect();
        noted.chunks(TOGETHER).map(|dids| Topic::Identities(dids.to_vec())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notice_fits() {
        let identities = ChangedIdentities::default();
        for n in 0..=TOGETHER {
            let did = format!("did:plc:{n:0>62}");
            assert_eq!(did.len(), LONGEST);
            identities.note(&Did::try_from(did.as_str()).unwrap());
        }
        identities.note(&Did::try_from(format!("did:plc:{:0>63}", 1).as_str()).unwrap());
        let notices = identities.take();
        assert_eq!(notices.len(), 2);
        assert!(notices.iter().all(|notice| notice.to_string().len() < 8_000));
        assert!(identities.take().is_empty());
    }
}
