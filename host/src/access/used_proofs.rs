//! DPoP proofs are good for one use, on all hosts and after every restart: their ids are kept in the database until they
//! have expired. Many requests share one statement.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::{Clock, Timestamp};
use crate::crypto::sha256;
use crate::store::used_proofs::{self, ProofId};
use crate::store::{Db, StoreError};

/// Requests that may wait for the database; more are turned away.
const QUEUE: usize = 1024;

/// Ids in one statement: two parameters each, far below what databases take.
const BATCH: usize = 256;

/// How often those that have expired are forgotten.
const PRUNE_EVERY: Duration = Duration::from_mins(1);

/// Rows that one statement forgets, so that no other writer waits long.
const PRUNE_ROWS: u32 = 10_000;

/// Asks whether a proof is used for the first time. Cheap to clone.
#[derive(Clone, Debug)]
pub struct UsedProofs(mpsc::Sender<Use>);

#[derive(Debug)]
struct Use {
    id: ProofId,
    expires_at: Timestamp,
    answer: oneshot::Sender<bool>,
}

/// The database could not say; the proof must not be taken.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("used DPoP proofs can't be looked up now")]
pub struct Unknown;

impl UsedProofs {
    pub fn start(db: Db, clock: Clock, tasks: &TaskTracker, stop: CancellationToken) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        // Not one of the tasks that shutdown waits for: it ends with the last request that may ask.
        tokio::spawn(keep(db.clone(), receiver));
        tasks.spawn(async move {
            while stop.run_until_cancelled(tokio::time::sleep(PRUNE_EVERY)).await.is_some() {
                if let Err(error) = prune(&db, clock.now()).await {
                    tracing::warn!(%error, "used DPoP proofs could not be cleared up");
                }
            }
        });
        Self(sender)
    }

    /// Notes the use of a proof; `false` when it was used before. Only for proofs whose signature has been checked.
    ///
    /// # Errors
    /// When nobody can say, or too many ask.
    pub async fn first_use(
        &self,
        thumbprint: &str,
        jti: &str,
        expires_at: Timestamp,
    ) -> Result<bool, Unknown> {
        let mut id = ProofId::default();
        // A thumbprint has a fixed length, so no two pairs run together.
        id.copy_from_slice(&sha256(format!("{thumbprint}{jti}").as_bytes())[..16]);
        let (answer, answered) = oneshot::channel();
        self.0.try_send(Use { id, expires_at, answer }).map_err(|_| Unknown)?;
        answered.await.map_err(|_| Unknown)
    }
}

/// Ends when nobody can ask any more.
async fn keep(db: Db, mut uses: mpsc::Receiver<Use>) {
    let mut batch = Vec::with_capacity(BATCH);
    while uses.recv_many(&mut batch, BATCH).await > 0 {
        let mut proofs: Vec<(ProofId, Timestamp)> = Vec::with_capacity(batch.len());
        for one in &batch {
            if !proofs.iter().any(|(id, _)| *id == one.id) {
                proofs.push((one.id, one.expires_at));
            }
        }
        match used_proofs::keep(&db, &proofs).await {
            Ok(mut fresh) => {
                for one in batch.drain(..) {
                    // Of the same proof twice in a batch, the first use is it.
                    let place = fresh.iter().position(|id| *id == one.id);
                    let _ = one.answer.send(place.map(|place| fresh.swap_remove(place)).is_some());
                }
            }
            Err(error) => {
                tracing::error!(%error, "DPoP proofs are refused: their use can't be noted");
                // Whoever waits hears it by the end of their channel.
                batch.clear();
            }
        }
    }
}

async fn prune(db: &Db, now: Timestamp) -> Result<(), StoreError> {
    while used_proofs::prune(db, now, PRUNE_ROWS).await? == u64::from(PRUNE_ROWS) {}
    Ok(())
}
