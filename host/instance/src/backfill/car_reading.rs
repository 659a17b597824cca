//! Reads the rest of a repo from its CAR, where that is cheaper than pages.
//!
//! A CAR has the rev of its commit, and the owner's signature proves its records: a record that it lacks does not exist.
//! A CAR that can't be used changes nothing: the pages go on.

use std::sync::atomic::Ordering;

use super::car::Car;
use super::car_request::{self, NoCar};
use super::choice::{self, Outcome};
use super::failure::{ErrorKind, Failure};
use super::list_writer::ListWriter;
use super::listing::Listing;
use super::repo::{ReadError, Repo};
use super::repo_reader::RepoReader;
use super::request::Server;
use belvedere_protocol::atproto::{Did, Tid};

/// The reason why the rest of a repo was not read from its CAR.
enum CarError {
    /// The pages go on.
    NoCar(NoCar),
    Read(ReadError),
}

impl From<NoCar> for CarError {
    fn from(why: NoCar) -> Self {
        Self::NoCar(why)
    }
}

impl<E: Into<ReadError>> From<E> for CarError {
    fn from(error: E) -> Self {
        Self::Read(error.into())
    }
}

/// Reads the rest of the listings from a CAR, if there is one that is worth it. Otherwise they stay where they are.
pub(super) async fn read_rest(
    job: &RepoReader,
    server: &Server<'_>,
    repo: &mut Repo,
    rev: Tid,
) -> Result<(), ReadError> {
    let Some(max_bytes) = max_bytes(job, server, repo).await? else { return Ok(()) };
    match read_car(job, server, repo, rev, max_bytes).await {
        Ok(()) => Ok(()),
        Err(CarError::NoCar(why)) => Ok(without_car(job, server.origin, &repo.did, why)?),
        Err(CarError::Read(error)) => Err(error),
    }
}

/// The most bytes that a CAR of the repo may have; `None`: the pages go on.
async fn max_bytes(
    job: &RepoReader,
    server: &Server<'_>,
    repo: &mut Repo,
) -> Result<Option<usize>, ReadError> {
    let is_short = !repo.listings.iter().any(|listing| listing.is_long() && listing.is_ordered());
    if is_short || std::mem::replace(&mut repo.is_chosen, true) || !job.cars.permits(server.origin) {
        return Ok(None);
    }
    match job.or_stop(server.collections(&repo.did)).await? {
        Ok(present) => Ok(job.cars.max_bytes(&present, &job.collections, repo.page_bytes)),
        Err(failure) if failure.kind == ErrorKind::RateLimited => Err(failure.into()),
        Err(_) => {
            job.cars.ended(server.origin, Outcome::Failed, 0);
            Ok(None)
        }
    }
}

async fn read_car(
    job: &RepoReader,
    server: &Server<'_>,
    repo: &mut Repo,
    rev: Tid,
    max_bytes: usize,
) -> Result<(), CarError> {
    let did = &repo.did;
    let file = job.or_stop(car_request::car(server, did, max_bytes, &job.cars.memory)).await??;
    let bytes = file.bytes.len();
    let unusable = |why| NoCar::Unusable(why, bytes);
    let checked = Car::check(file, did, rev, &job.collections, &job.resolver, &job.clock);
    let mut car = job.or_stop(Box::pin(checked)).await?.map_err(unusable)?;
    let list = ListWriter { job, did, rev: car.rev, server: None };
    let unread = repo.listings.iter_mut().filter(|listing| !listing.is_done);
    for listing in unread.filter(|listing| listing.is_ordered()) {
        // Its cursors are not the PDS's, so nothing changes before the rest was read to the end.
        let mut rest = Listing::at(listing.collection.clone(), listing.position());
        if let Some(last) = listing.last_key() {
            car.skip_from(&listing.collection, last);
        }
        while !rest.is_done {
            let taken = match car.page(&listing.collection) {
                Ok(page) => list.take_page(&mut rest, page).await.map_err(CarError::Read),
                Err(why) => Err(unusable(why.into()).into()),
            };
            if taken.is_err() {
                job.records.fetch_sub(rest.records - listing.records, Ordering::Relaxed);
            }
            taken?;
        }
        listing.end_with(rest);
    }
    job.meter.read_car();
    job.cars.ended(server.origin, Outcome::Read, choice::wasted(bytes, car.given_bytes));
    Ok(())
}

/// After an attempt without a CAR that can be used.
///
/// # Errors
/// When the PDS asks to wait, or says that the repo can't be read.
fn without_car(job: &RepoReader, host: &str, did: &Did, why: NoCar) -> Result<(), Failure> {
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
        NoCar::NoMemory(bytes) => (Outcome::NoMemory, bytes, "too many arrive at the same time".to_owned()),
        NoCar::Unusable(why, bytes) => (Outcome::Invalid, bytes, why.to_string()),
    };
    let is_last = job.cars.ended(host, outcome, bytes);
    if outcome != Outcome::Invalid {
        tracing::debug!(%did, host, why, "a repo is not read from its CAR");
        if is_last {
            tracing::info!(host, why, "the PDS is not asked for CARs any more in this backfill");
        }
    } else if job.cars.may_warn() {
        tracing::warn!(%did, host, why, is_last, "a repo's CAR can't be used; its records are read in pages");
    }
    Ok(())
}
