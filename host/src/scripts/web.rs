//! The way of scripts to other servers: the guarded client, and how many runs may wait for it at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits;
use crate::net;

/// How long a run waits for its turn to wait for others. It holds an instance meanwhile.
const TURN_WAIT: Duration = Duration::from_secs(5);

/// What `http.*` and the blobs of `atproto.*` go through. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Web {
    net: net::Client,
    turns: Arc<Semaphore>,
    blob_places: Arc<Semaphore>,
}

/// As long as it lives, the run counts as one that waits.
#[derive(Debug)]
pub(crate) struct Turn(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

/// As long as it lives, the run counts as one that holds blobs.
#[derive(Debug)]
pub(super) struct Place(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

impl Web {
    /// Half of the `instances` may wait for other servers at once, so that slow servers never take the pool from
    /// scripts that ask nobody.
    pub fn new(net: net::Client, instances: u32) -> Self {
        let turns = (instances as usize / 2).max(1);
        Self {
            net,
            turns: Arc::new(Semaphore::new(turns)),
            blob_places: Arc::new(Semaphore::new(limits::BLOB_RUNS)),
        }
    }

    pub(super) fn client(&self) -> &net::Client {
        &self.net
    }

    /// `None` when too many runs hold blobs already.
    pub(super) async fn blob_place(&self) -> Option<Place> {
        let permit = tokio::time::timeout(TURN_WAIT, Arc::clone(&self.blob_places).acquire_owned()).await;
        permit.ok()?.ok().map(Place)
    }

    /// `None` when too many runs wait already.
    pub(crate) async fn turn(&self) -> Option<Turn> {
        let permit = tokio::time::timeout(TURN_WAIT, Arc::clone(&self.turns).acquire_owned()).await;
        permit.ok()?.ok().map(Turn)
    }
}
