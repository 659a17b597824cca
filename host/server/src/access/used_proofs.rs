//! Detects replayed DPoP proofs and delegation tokens, on all hosts and across restarts: the ids of used ones are kept in the
//! database until they expire. Concurrent requests share one statement.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use belvedere_base::clock::{Clock, Timestamp};
use belvedere_protocol::crypto::sha256;
use belvedere_storage::store::used_proofs::{self, ProofId};
use belvedere_storage::store::{Db, StoreError};

/// Requests that may wait for the database; further ones are rejected.
const MAX_WAITING: usize = 1024;

/// Ids in one statement: two parameters each, far below the databases' limits.
const MAX_BATCH: usize = 256;

/// Interval at which expired ids are deleted.
const PRUNE_EVERY: Duration = Duration::from_mins(1);

/// Rows that one statement deletes, so that no other writer waits long.
const PRUNE_ROWS: u32 = 10_000;

/// Records the use of proofs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct UsedProofs(mpsc::Sender<ProofUse>);

#[derive(Debug)]
struct ProofUse {
    id: ProofId,
    expires_at: Timestamp,
    answer: oneshot::Sender<bool>,
}

/// It is unknown whether the proof was used before: the database failed or is overloaded. The proof must be rejected.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("used proofs can't be looked up now")]
pub struct UseUnknown;

impl UsedProofs {
    pub fn start(db: Db, clock: Clock, tasks: &TaskTracker, stop: CancellationToken) -> Self {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        // Not one of the tasks that shutdown waits for: it ends when the last `UsedProofs` is dropped.
        tokio::spawn(insert_batches(db.clone(), receiver));
        tasks.spawn(async move {
            while stop.run_until_cancelled(tokio::time::sleep(PRUNE_EVERY)).await.is_some() {
                if let Err(error) = prune(&db, clock.now()).await {
                    tracing::warn!(%error, "expired ids of used proofs could not be deleted");
                }
            }
        });
        Self(sender)
    }

    /// Records the use of a proof; `false` when it was used before. Only for proofs whose signature has been verified.
    /// `thumbprint`: a SHA-256 in base64url that identifies the signer.
    ///
    /// # Errors
    /// When the database fails, or too many requests wait for it.
    pub async fn first_use(
        &self,
        thumbprint: &str,
        jti: &str,
        expires_at: Timestamp,
    ) -> Result<bool, UseUnknown> {
        let mut id = ProofId::default();
        // A thumbprint has a fixed length, so no two pairs concatenate to the same text.
        id.copy_from_slice(&sha256(format!("{thumbprint}{jti}").as_bytes())[..16]);
        let (answer, answered) = oneshot::channel();
        self.0.try_send(ProofUse { id, expires_at, answer }).map_err(|_| UseUnknown)?;
        answered.await.map_err(|_| UseUnknown)
    }
}

/// Inserts the queued ids in batches, until every [`UsedProofs`] is dropped.
async fn insert_batches(db: Db, mut uses: mpsc::Receiver<ProofUse>) {
    let mut batch = Vec::with_capacity(MAX_BATCH);
    while uses.recv_many(&mut batch, MAX_BATCH).await > 0 {
        let mut proofs: Vec<(ProofId, Timestamp)> = Vec::with_capacity(batch.len());
        for one in &batch {
            if !proofs.iter().any(|(id, _)| *id == one.id) {
                proofs.push((one.id, one.expires_at));
            }
        }
        match used_proofs::insert_unused(&db, &proofs).await {
            Ok(mut fresh) => {
                for one in batch.drain(..) {
                    // When a batch has the same proof twice, only the first counts as the first use.
                    let index = fresh.iter().position(|id| *id == one.id);
                    let _ = one.answer.send(index.map(|index| fresh.swap_remove(index)).is_some());
                }
            }
            Err(error) => {
                tracing::error!(%error, "proofs are rejected: their use can't be recorded");
                // Dropping the channels fails the requests that wait.
                batch.clear();
            }
        }
    }
}

async fn prune(db: &Db, now: Timestamp) -> Result<(), StoreError> {
    while used_proofs::prune(db, now, PRUNE_ROWS).await? == u64::from(PRUNE_ROWS) {}
    Ok(())
}
