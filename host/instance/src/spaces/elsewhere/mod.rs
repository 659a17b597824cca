//! Spaces and repos of other hosts (docs/adr/0115-spaces-copies-of-other-hosts.md): this instance follows the spaces that its users ask
//! for, copies the repos in them, and those that other hosts have in its own spaces.

mod check;
mod credential;
mod follow;
mod pull;

use std::time::Duration;

use super::Spaces;
use super::services::ServiceError;
use belvedere_protocol::spaces::r10::{InvalidCommit, InvalidSpaceCar};
use belvedere_storage::store::StoreError;
use belvedere_storage::store::spaces::copies;
use belvedere_storage::store::spaces::space::{self, SpaceRow};
use belvedere_storage::store::spaces::{SpaceId, follows};
use belvedere_web::fair_share::{Bounds, FairPool, Full, Permit, Tenant};
use belvedere_web::net::Limits;

pub(super) use credential::{HeldCredentials, NoCredential};

/// Reads of other hosts at the same time, of lists and of repos. The spaces of another host have a quarter of them.
const BOUNDS: Bounds =
    Bounds { permits: 8, per_tenant: 2, waiting: 0, waiting_per_tenant: 0, max_wait: Duration::ZERO };

/// An attempt ends after this time.
const ATTEMPT_TIME: Duration = Duration::from_mins(2);

/// Time after which another host may begin an attempt that did not end.
const LEASE_SECONDS: i64 = 150;

const _: () = assert!(ATTEMPT_TIME.as_secs() < LEASE_SECONDS as u64, "no attempt begins during another one");

/// Time for which a check waits when the share of the space is taken.
const DEFERRED_SECONDS: i64 = 2;

/// Rows that are looked at in one step.
const MAX_DUE: u32 = 200;

/// Limits of an answer that is no repo: a thousand entries of a list.
const ANSWER: Limits = Limits { max_bytes: 2 << 20, total: Duration::from_secs(10) };

/// The reason why an attempt has failed. The next one comes after a pause.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    NoCredential(#[from] NoCredential),
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error(transparent)]
    Car(#[from] InvalidSpaceCar),
    #[error(transparent)]
    Commit(#[from] InvalidCommit),
    #[error("{0}")]
    Answer(&'static str),
}

/// The permits for attempts.
pub(super) fn pool() -> FairPool {
    FairPool::new("space_copies", BOUNDS)
}

impl Spaces {
    /// Begins to check the followed spaces, and to read the repos, that are due, as long as there are permits.
    pub(super) async fn copy_what_is_due(&self) -> Result<(), StoreError> {
        let (db, clock) = (&self.core().db, &self.core().clock);
        for row in follows::due(db, clock.now(), MAX_DUE).await? {
            match self.enter(row.space).await? {
                Entered::Full => return Ok(()),
                Entered::Blocked => {
                    // It moves behind the others, so that it does not hide them.
                    follows::begin_check(db, &row, clock.now().plus_seconds(DEFERRED_SECONDS)).await?;
                }
                Entered::Now(space, permit) => {
                    let until = clock.now().plus_seconds(LEASE_SECONDS);
                    if follows::begin_check(db, &row, until).await? {
                        let spaces = self.clone();
                        self.spawn_attempt(permit, async move {
                            spaces.check_followed(&space, &row, until).await
                        });
                    }
                }
            }
        }
        // A share that is taken may have more repos than a page: then the page without it is read.
        let mut taken = Vec::new();
        loop {
            let page = copies::due(db, clock.now(), MAX_DUE, &taken).await?;
            let is_last = page.len() < MAX_DUE as usize;
            for copy in page {
                if taken.contains(&copy.share) {
                    continue;
                }
                match self.enter(copy.space).await? {
                    Entered::Full => return Ok(()),
                    Entered::Blocked => taken.push(copy.share),
                    Entered::Now(space, permit) => {
                        let until = clock.now().plus_seconds(LEASE_SECONDS);
                        if copies::begin(db, &copy, until).await? {
                            let spaces = self.clone();
                            self.spawn_attempt(
                                permit,
                                async move { spaces.pull(&space, &copy, until).await },
                            );
                        }
                    }
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Takes a permit for an attempt in a space.
    async fn enter(&self, space: SpaceId) -> Result<Entered, StoreError> {
        let row = space::by_id(&self.core().db, space).await?.filter(|row| row.deleted_at.is_none());
        let Some(row) = row else { return Ok(Entered::Blocked) };
        // The spaces of this instance may have one authority: the creator of each pays for it.
        let share = if row.is_hosted { &row.creator } else { &row.uri.did };
        Ok(match self.0.copies.try_enter(&Tenant::of_did(share.as_str())) {
            Ok(permit) => Entered::Now(Box::new(row), permit),
            Err(Full::Tenant) => Entered::Blocked,
            Err(Full::Pool | Full::Timeout) => Entered::Full,
        })
    }
}

/// Whether an attempt begins.
enum Entered {
    Now(Box<SpaceRow>, Permit),
    /// The share of the space is taken, or the space is gone.
    Blocked,
    /// All permits are taken.
    Full,
}

/// Counts attempts by what became of them.
fn count(what: &'static str, result: &'static str) {
    metrics::counter!("belvedere_space_reads_total", "what" => what, "result" => result).increment(1);
}
