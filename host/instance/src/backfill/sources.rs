//! Reads one repo from its sources: pages first, and the rest from a CAR where that is cheaper.
//!
//! A CAR has the rev of its commit, its records are proved by the owner's signature, and what it has not does not exist.
//! A CAR that can't be used changes nothing: the pages go on.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::car::{Car, Unusable};
use super::car_request::NoCar;
use super::choice::{self, Outcome};
use super::failure::{ErrorKind, Failure};
use super::left_out::LeftOut;
use super::listing::Listing;
use super::lookup::moved;
use super::repo::{Break, Repo, RepoEnd, RepoReader};
use super::request::Server;
use belvedere_protocol::atproto::{Did, Tid};
use belvedere_storage::store::StoreError;
use belvedere_storage::store::backfill;
use belvedere_storage::store::index::AccountStatus;

/// How often an account may be found at another PDS while one job reads it.
const MAX_MOVES: u32 = 3;

impl RepoReader {
    /// Reads the collections of a repo, from where an earlier attempt stopped.
    pub(super) async fn read(&self, endpoint: &str, repo: &mut Repo) -> Result<RepoEnd, StoreError> {
        if repo.listings.is_empty() {
            repo.listings = self.listings(&repo.did).await?;
            repo.restored = repo.records();
        }
        let server = Server { net: &self.net, clock: &self.clock, origin: endpoint, meter: &self.meter };
        let read = match self.read_listings(&server, repo).await {
            Err(Break::Failed(failure)) if repo.moves < MAX_MOVES => {
                match moved(&self.resolver, endpoint, &repo.did, failure).await {
                    Ok(pds) => return self.start_over(repo, pds).await,
                    Err(failure) => self.hide(&server, &repo.did, failure).await,
                }
            }
            read => read,
        };
        match read {
            Ok(()) => Ok(repo.left_out.failure().map_or(RepoEnd::Read, RepoEnd::Failed)),
            Err(Break::Failed(failure)) => Ok(RepoEnd::Failed(failure)),
            Err(Break::Stopped) => {
                self.save(repo).await?;
                Ok(RepoEnd::Stopped)
            }
            Err(Break::Uncommitted) => Ok(RepoEnd::Stopped),
            Err(Break::Store(error)) => Err(error),
        }
    }

    async fn read_listings(&self, server: &Server<'_>, repo: &mut Repo) -> Result<(), Break> {
        let rev = self.or_stop(server.latest_rev(&repo.did)).await??;
        if let Some(since) = self.changed_since {
            let before = self.fold(server, &repo.did, AccountStatus::Active).await?;
            // The rows of an account that was deleted are gone, however old they were.
            if rev.timestamp_micros() < since.0.unsigned_abs() && before != Some(AccountStatus::Deleted) {
                return Ok(());
            }
        }
        self.read_pages(server, repo, rev, Listing::is_new).await?;
        if let Some(max_bytes) = self.max_car_bytes(server, repo).await? {
            self.read_car(server, repo, rev, max_bytes).await?;
        }
        self.read_pages(server, repo, rev, |listing| !listing.is_done).await?;
        // Those that an earlier attempt could not confirm.
        for listing in &mut repo.listings {
            self.remove_absent(Some(server), &repo.did, listing, &mut repo.left_out).await?;
        }
        Ok(())
    }

    /// The most bytes that a CAR of the repo may have; `None`: the pages go on.
    async fn max_car_bytes(&self, server: &Server<'_>, repo: &mut Repo) -> Result<Option<usize>, Break> {
        let is_short = !repo.listings.iter().any(|listing| listing.is_long() && listing.is_ordered());
        if is_short || std::mem::replace(&mut repo.is_chosen, true) || !self.cars.permits(server.origin) {
            return Ok(None);
        }
        match self.or_stop(server.collections(&repo.did)).await? {
            Ok(present) => Ok(self.cars.max_bytes(&present, &self.collections, repo.page_bytes)),
            Err(failure) if failure.kind == ErrorKind::RateLimited => Err(Break::Failed(failure)),
            Err(_) => {
                self.cars.ended(server.origin, Outcome::Failed, 0);
                Ok(None)
            }
        }
    }

    /// Reads the rest of the repo's records from a CAR. If it can't be used, the listings stay where they are.
    async fn read_car(
        &self,
        server: &Server<'_>,
        repo: &mut Repo,
        rev: Tid,
        max_bytes: usize,
    ) -> Result<(), Break> {
        let (did, host) = (&repo.did, server.origin);
        let file = match self.or_stop(server.car(did, max_bytes, &self.cars.memory)).await? {
            Ok(file) => file,
            Err(no_car) => return Ok(self.without(host, did, no_car)?),
        };
        let bytes = file.bytes.len();
        let checked = Car::check(file, did, rev, &self.collections, &self.resolver, &self.clock);
        let mut car = match self.or_stop(Box::pin(checked)).await? {
            Ok(car) => car,
            Err(why) => {
                self.unusable(host, did, bytes, &why);
                return Ok(());
            }
        };
        let unread = repo.listings.iter_mut().filter(|listing| !listing.is_done);
        for listing in unread.filter(|listing| listing.is_ordered()) {
            // What was left out of a CAR that can't be used is read again in pages.
            let mut left_out = repo.left_out.clone();
            match self.take_list(did, &mut car, listing, &mut left_out).await? {
                Ok(mut list) => {
                    // What its pages lack is above the CAR's part of the list.
                    list.absent.append(&mut listing.absent);
                    list.denied = listing.denied;
                    *listing = list;
                    repo.left_out = left_out;
                }
                Err(why) => {
                    self.unusable(host, did, bytes, &why);
                    return Ok(());
                }
            }
        }
        self.meter.read_car();
        self.cars.ended(host, Outcome::Read, choice::wasted(bytes, car.given_bytes));
        Ok(())
    }

    /// Stores the records of a CAR that follow in a listing. Returns the listing at its end.
    async fn take_list(
        &self,
        did: &Did,
        car: &mut Car,
        listing: &Listing,
        left_out: &mut LeftOut,
    ) -> Result<Result<Listing, Unusable>, Break> {
        // Its cursors are none of the PDS's, so it replaces the listing only when it is complete.
        let mut list = Listing::at(listing.collection.clone(), listing.position());
        if let Some(last) = listing.last_key() {
            car.skip_from(&listing.collection, last);
        }
        while !list.is_done {
            let ended = match car.page(&listing.collection) {
                Ok(page) => self.take_page(None, (did, car.rev), &mut list, page, left_out).await.map(Ok),
                Err(why) => Ok(Err(why.into())),
            };
            self.remove_absent(None, did, &mut list, left_out).await?;
            if !matches!(ended, Ok(Ok(()))) {
                self.records.fetch_sub(list.records - listing.records, Ordering::Relaxed);
            }
            if let Err(why) = ended? {
                return Ok(Err(why));
            }
        }
        Ok(Ok(list))
    }

    /// After a request that brought no CAR.
    ///
    /// # Errors
    /// When the PDS asks to wait, or says that the repo can't be read.
    fn without(&self, host: &str, did: &Did, why: NoCar) -> Result<(), Failure> {
        use ErrorKind::{RateLimited, RepoDeactivated, RepoNotFound, RepoTakendown};
        let (outcome, bytes, why) = match why {
            NoCar::Failed(failure)
                if matches!(failure.kind, RateLimited | RepoNotFound | RepoDeactivated | RepoTakendown) =>
            {
                return Err(failure);
            }
            NoCar::Refused(failure) => (Outcome::Refused, 0, failure.text),
            NoCar::Failed(failure) => (Outcome::Failed, 0, failure.text),
            NoCar::TooLarge(bytes) => (Outcome::TooLarge, bytes, "it is too large".to_owned()),
            NoCar::NoMemory(bytes) => {
                (Outcome::NoMemory, bytes, "too many arrive at the same time".to_owned())
            }
        };
        tracing::debug!(%did, host, why, "a repo is not read from its CAR");
        if self.cars.ended(host, outcome, bytes) {
            tracing::info!(host, why, "the PDS is not asked for CARs any more in this backfill");
        }
        Ok(())
    }

    /// After a CAR that is not what it should be.
    fn unusable(&self, host: &str, did: &Did, bytes: usize, why: &Unusable) {
        let is_last = self.cars.ended(host, Outcome::Invalid, bytes);
        if self.cars.may_warn() {
            tracing::warn!(%did, host, %why, is_last, "a repo's CAR can't be used; its records are read in pages");
        }
    }

    /// Begins again at another PDS: the position at the old one means nothing to it.
    async fn start_over(&self, repo: &mut Repo, pds: String) -> Result<RepoEnd, StoreError> {
        repo.moves += 1;
        self.records.fetch_sub(repo.records(), Ordering::Relaxed);
        repo.listings.clear();
        (repo.restored, repo.spent) = (0, Duration::ZERO);
        repo.left_out = LeftOut::default();
        repo.is_chosen = false;
        backfill::forget_positions(&self.db, self.job, repo.did.as_str()).await?;
        Ok(RepoEnd::Moved(pds))
    }
}
