//! The handles of accounts, looked up once and kept in the database (`docs/adr/0119-handles-are-kept.md`).

#[cfg(test)]
mod tests;
mod unknown;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_protocol::atproto::{Did, Handle};
use belvedere_storage::store::identities::{self, Account, Learned};
use belvedere_storage::store::{Db, StoreError};

use self::unknown::Unknown;
use crate::identity::{Handles, Resolver};

/// Seconds for which a stored handle counts. An identity event ends that earlier; a change at the handle's domain causes
/// no event.
const HANDLE_SECONDS: i64 = 24 * 3_600;

/// The same for an account without a verified handle, whose owner is perhaps about to set one up.
const NO_HANDLE_SECONDS: i64 = 3_600;

/// Time for which a refresh after identity events looks up handles.
const REFRESH_TIME: Duration = Duration::from_secs(30);

/// Look-ups of refreshes at the same time: they take few of the permits at the directory.
const REFRESH_PERMITS: usize = 4;

/// Knows accounts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct People {
    db: Db,
    resolver: Resolver,
    clock: Clock,
    random: Random,
    unknown: Arc<Unknown>,
}

/// The stored part of an answer.
#[derive(Debug, Default)]
pub struct Stored {
    accounts: HashMap<String, Account>,
    verified: HashMap<Did, String>,
    /// Accounts that have to be looked up.
    pub missing: Vec<Did>,
}

impl People {
    pub fn new(db: Db, resolver: Resolver, clock: Clock, random: Random) -> Self {
        Self { db, resolver, clock, random, unknown: Arc::default() }
    }

    /// The same accounts, for runs that may not use the network: nothing is looked up, also not later.
    #[must_use]
    pub fn without_look_ups(&self) -> Self {
        Self { resolver: self.resolver.without_look_ups(), ..self.clone() }
    }

    /// The known accounts among `dids`, for a page that shows them. Handles of those in the index are looked up in the
    /// background, so that a later page has them. Others are not looked up: a caller may name any account, and the database
    /// could not keep the result.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn shown(&self, dids: &[Did]) -> Result<HashMap<String, Account>, StoreError> {
        let accounts = self.accounts(dids).await?;
        if self.resolver.looks_up() {
            let now = self.clock.now();
            let is_old = |account: &Account| !account.is_hidden && !is_fresh(account, now);
            let is_wanted = |did: &&Did| accounts.get(did.as_str()).is_some_and(is_old);
            self.unknown.note(dids.iter().filter(is_wanted), now);
        }
        Ok(accounts)
    }

    /// Looks up the accounts that [`Self::shown`] has noted. Never ends.
    pub async fn look_up_unknown(self) {
        let resolver = self.resolver.for_tasks(REFRESH_PERMITS);
        loop {
            self.unknown.noted().await;
            while let dids = self.unknown.take(self.clock.now())
                && !dids.is_empty()
            {
                self.look_up(&resolver, &dids).await;
            }
        }
    }

    async fn look_up(&self, resolver: &Resolver, dids: &[Did]) {
        // Another page or host may have found some meanwhile.
        let Ok(Stored { missing, .. }) = self.stored(dids).await else {
            self.unknown.failed(dids, self.clock.now(), &self.random);
            return;
        };
        let found = resolver.handles(&missing, |_| true, REFRESH_TIME).await;
        let is_kept = self.keep(&found).await;
        let has_failed = |did: &Did| !is_kept || found.failed.iter().any(|(failed, _)| failed == did);
        let (failed, looked_up): (Vec<Did>, Vec<Did>) = missing.into_iter().partition(has_failed);
        let now = self.clock.now();
        self.unknown.looked_up(&looked_up, now);
        self.unknown.failed(&failed, now, &self.random);
    }

    /// The stored accounts among `dids`.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn accounts(&self, dids: &[Did]) -> Result<HashMap<String, Account>, StoreError> {
        identities::accounts(&self.db, dids).await
    }

    /// Begins to answer for these accounts with what is stored.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn stored(&self, dids: &[Did]) -> Result<Stored, StoreError> {
        let mut stored = Stored { accounts: self.accounts(dids).await?, ..Stored::default() };
        for did in dids {
            match stored.accounts.get(did.as_str()) {
                Some(account) if is_fresh(account, self.clock.now()) => {
                    if let Some(handle) = &account.handle {
                        stored.verified.insert(did.clone(), handle.clone());
                    }
                }
                _ => stored.missing.push(did.clone()),
            }
        }
        Ok(stored)
    }

    /// Looks up the accounts that are missing, and keeps the results if `keeps`. Accounts that can't be looked up now have
    /// the handle that was stored before. `pay` is called before the domain of a handle is asked.
    pub async fn complete(
        &self,
        stored: Stored,
        pay: impl Fn(&Handle) -> bool + Send + Sync,
        max_wait: Duration,
        keeps: bool,
    ) -> Handles {
        let Stored { accounts, verified, missing } = stored;
        let mut found = self.resolver.handles(&missing, pay, max_wait).await;
        if keeps {
            self.keep(&found).await;
        }
        found.failed.retain(|(did, _)| {
            let old = accounts.get(did.as_str()).and_then(|account| account.handle.clone());
            old.is_none_or(|handle| {
                found.verified.insert(did.clone(), handle);
                false
            })
        });
        found.verified.extend(verified);
        found
    }

    /// Forgets the handles and PDSs of accounts after identity events, and looks up those handles again that were known.
    ///
    /// # Errors
    /// When the store can't be written.
    pub async fn identities_changed(&self, dids: &[Did]) -> Result<(), StoreError> {
        let known = identities::forget(&self.db, dids, self.clock.now()).await?;
        for did in dids {
            self.unknown.forget(did);
            // Documents that count from now on are fetched after that time.
            self.resolver.invalidate(did).await;
        }
        if !known.is_empty() {
            let tasks = self.resolver.for_tasks(REFRESH_PERMITS);
            let found = tasks.handles(&known, |_| true, REFRESH_TIME).await;
            self.keep(&found).await;
        }
        Ok(())
    }

    /// Forgets what this host keeps of accounts in memory, after another host has cleared what is stored.
    pub fn forget(&self, dids: &[Did]) {
        for did in dids {
            self.unknown.forget(did);
        }
    }

    /// Stores what was found, and returns whether that succeeded. A failure costs later look-ups only.
    async fn keep(&self, found: &Handles) -> bool {
        let learned = found.documents.iter().map(|(did, dated)| Learned {
            did: did.clone(),
            handle: found.verified.get(did).cloned(),
            pds: dated.document.pds().map(str::to_owned),
            known_at: dated.fetched_at,
        });
        let stored = identities::learn(&self.db, &learned.collect::<Vec<_>>()).await;
        if let Err(error) = &stored {
            tracing::warn!(%error, "handles can't be stored: they will be looked up again");
        }
        stored.is_ok()
    }
}

/// Whether what is stored of an account counts.
fn is_fresh(account: &Account, now: Timestamp) -> bool {
    let seconds = match account {
        Account { handle: Some(_), .. } => HANDLE_SECONDS,
        Account { pds: Some(_), .. } => NO_HANDLE_SECONDS,
        // It was cleared, or its document names neither.
        _ => return false,
    };
    account.known_at.is_some_and(|known_at| now < known_at.plus_seconds(seconds))
}
