//! Reads one repo from its sources: pages first, and the rest from a CAR where that is cheaper.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::accounts;
use super::car_reading;
use super::list_writer::ListWriter;
use super::listing::{Listing, MAX_ABSENT};
use super::lookup::moved;
use super::next_page::next_page;
use super::repo::{ReadError, Repo, RepoEnd};
use super::repo_reader::RepoReader;
use super::request::Server;
use super::slow_guard;
use belvedere_protocol::atproto::{Did, Nsid, Tid};
use belvedere_storage::store::StoreError;
use belvedere_storage::store::backfill;
use belvedere_storage::store::index::AccountStatus;

/// Maximum number of moves of an account to another PDS while one job reads it.
const MAX_MOVES: u32 = 3;

/// Pages after which the position in a repo is saved: a crash repeats no more than these.
const PAGES_PER_SAVE: u32 = 10;

impl RepoReader {
    /// Reads the collections of a repo, from where an earlier attempt stopped.
    pub(super) async fn read(&self, endpoint: &str, repo: &mut Repo) -> Result<RepoEnd, StoreError> {
        if repo.listings.is_empty() {
            repo.listings = self.listings(&repo.did).await?;
            repo.restored = repo.records();
        }
        let server = Server { net: &self.net, clock: &self.clock, origin: endpoint, meter: &self.meter };
        let read = match self.read_listings(&server, repo).await {
            Err(ReadError::Failed(failure)) if repo.moves < MAX_MOVES => {
                match moved(&self.resolver, endpoint, &repo.did, failure).await {
                    Ok(pds) => return self.start_over(repo, pds).await,
                    Err(failure) => accounts::hide(self, &server, &repo.did, failure).await,
                }
            }
            read => read,
        };
        match read {
            Ok(()) => Ok(repo.failure().map_or(RepoEnd::Read, RepoEnd::Failed)),
            Err(ReadError::Failed(failure)) => Ok(RepoEnd::Failed(failure)),
            Err(ReadError::Stopped) => {
                self.save(repo).await?;
                Ok(RepoEnd::Stopped)
            }
            Err(ReadError::Uncommitted) => Ok(RepoEnd::Stopped),
            Err(ReadError::Store(error)) => Err(error),
        }
    }

    async fn read_listings(&self, server: &Server<'_>, repo: &mut Repo) -> Result<(), ReadError> {
        let rev = self.or_stop(server.latest_rev(&repo.did)).await??;
        if let Some(since) = self.changed_since {
            let before = accounts::fold(self, server, &repo.did, AccountStatus::Active).await?;
            // The rows of an account that was deleted are gone, however old they were.
            if rev.timestamp_micros() < since.0.unsigned_abs() && before != Some(AccountStatus::Deleted) {
                return Ok(());
            }
        }
        self.read_pages(server, repo, rev, Listing::is_new).await?;
        car_reading::read_rest(self, server, repo, rev).await?;
        self.read_pages(server, repo, rev, |listing| !listing.is_done).await?;
        // Those that an earlier attempt could not confirm.
        let list = ListWriter { job: self, did: &repo.did, rev, server: Some(server) };
        for listing in &mut repo.listings {
            list.remove_absent(listing).await?;
        }
        Ok(())
    }

    /// Reads pages of each listing while it `continues`.
    async fn read_pages(
        &self,
        server: &Server<'_>,
        repo: &mut Repo,
        rev: Tid,
        continues: impl Fn(&Listing) -> bool,
    ) -> Result<(), ReadError> {
        let (began, before) = (Instant::now(), repo.spent);
        for at in 0..repo.listings.len() {
            while let Some(listing) = repo.listings.get_mut(at).filter(|listing| continues(listing)) {
                let list = ListWriter { job: self, did: &repo.did, rev, server: Some(server) };
                let page = self.or_stop(next_page(server, &repo.did, listing)).await?;
                repo.spent = before + began.elapsed();
                let page = page?;
                repo.page_bytes += page.bytes as i64;
                let page = page.of(&repo.did, &listing.collection);
                list.take_page(listing, page).await?;
                let is_saved = listing.pages().is_multiple_of(PAGES_PER_SAVE);
                if listing.is_done || is_saved || listing.absent.len() > MAX_ABSENT {
                    list.remove_absent(listing).await?;
                }
                if is_saved {
                    self.save(repo).await?;
                }
                repo.spent = before + began.elapsed();
                slow_guard::check(repo.spent, repo.given())?;
            }
        }
        Ok(())
    }

    /// Waits for a response, but not once the job stops.
    pub(super) async fn or_stop<T>(&self, request: impl Future<Output = T>) -> Result<T, ReadError> {
        self.stop.run_until_cancelled(request).await.ok_or(ReadError::Stopped)
    }

    /// The repo's listings, from where an earlier attempt stopped.
    async fn listings(&self, did: &Did) -> Result<Vec<Listing>, StoreError> {
        let stored = if self.is_continued {
            backfill::positions(&self.db, self.job, did.as_str()).await?
        } else {
            Vec::new()
        };
        let mut stored: HashMap<_, _> = stored.into_iter().map(|at| (at.collection.clone(), at)).collect();
        let listing = |collection: &Nsid| match stored.remove(collection.as_str()) {
            Some(position) => Listing::at(collection.clone(), position),
            None => Listing::new(collection.clone()),
        };
        Ok(self.collections.iter().map(listing).collect())
    }

    /// Saves the position in a repo.
    async fn save(&self, repo: &Repo) -> Result<(), StoreError> {
        let positions: Vec<_> = repo
            .listings
            .iter()
            .filter(|listing| listing.can_be_continued())
            .map(Listing::position)
            .collect();
        if positions.is_empty() {
            return Ok(());
        }
        backfill::save_positions(&self.db, self.job, repo.did.as_str(), &positions).await
    }

    /// Begins again at another PDS: the position at the old one means nothing to it.
    async fn start_over(&self, repo: &mut Repo, pds: String) -> Result<RepoEnd, StoreError> {
        repo.moves += 1;
        self.records.fetch_sub(repo.records(), Ordering::Relaxed);
        repo.listings.clear();
        (repo.restored, repo.spent) = (0, Duration::ZERO);
        repo.is_chosen = false;
        backfill::forget_positions(&self.db, self.job, repo.did.as_str()).await?;
        Ok(RepoEnd::Moved(pds))
    }
}
