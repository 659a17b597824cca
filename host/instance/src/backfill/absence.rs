//! Removes records of the index that a repo no longer has.
//!
//! A list of records can lack some by mistake, and nothing in it shows that. So a record that a list lacks is requested
//! by itself, and is removed only if its PDS denies it. A CAR needs no such requests: its owner has signed what it has.

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt as _};
use tokio::time::Instant;

use super::failure::Failure;
use super::left_out::LeftOut;
use super::listing::Listing;
use super::repo::{Break, RepoReader};
use super::request::Server;
use super::slow_guard;
use belvedere_protocol::atproto::{Did, Nsid, RecordKey};
use belvedere_storage::store::index::{Change, Delete};

/// Records that are removed in one transaction, between which a stopped job breaks off.
const REMOVED_TOGETHER: usize = 1_000;

/// Absent records that are removed together once the PDS has denied them.
const CONFIRMED_TOGETHER: usize = 100;

/// Records that are requested from a PDS at the same time for one repo.
const CONCURRENT_REQUESTS: usize = 4;

impl Server<'_> {
    /// How many of some records the PDS denies, from the first one on, and whether it has the next one. `false`: there
    /// is no next one. A failure leaves the denials before it true.
    pub(super) async fn denied(
        &self,
        did: &Did,
        collection: &Nsid,
        keys: Vec<RecordKey>,
    ) -> (usize, Result<bool, Failure>) {
        let mut requests: Vec<BoxFuture<'_, Result<bool, Failure>>> = Vec::new();
        for rkey in keys {
            requests.push(Box::pin(async move { self.has_record(did, collection, &rkey).await }));
        }
        let mut answers = stream::iter(requests).buffered(CONCURRENT_REQUESTS);
        let mut denied = 0;
        while let Some(has) = answers.next().await {
            if !matches!(has, Ok(false)) {
                return (denied, has);
            }
            denied += 1;
        }
        (denied, Ok(false))
    }
}

impl RepoReader {
    /// Removes the records that a list in order lacks and the server denies. If the server has one of them, the list is
    /// wrong: the others stay too. `None`: the list is a CAR's.
    ///
    /// # Errors
    /// After a failure, those that are not removed yet stay with the listing, for the next attempt.
    pub(super) async fn remove_absent(
        &self,
        server: Option<&Server<'_>>,
        did: &Did,
        listing: &mut Listing,
        left_out: &mut LeftOut,
    ) -> Result<(), Break> {
        if !listing.is_ordered() {
            listing.absent.clear();
        }
        let Some(server) = server else { return self.remove(std::mem::take(&mut listing.absent)).await };
        let (began, before) = (Instant::now(), listing.denied);
        while !listing.absent.is_empty() {
            let rest = listing.absent.len().saturating_sub(CONFIRMED_TOGETHER);
            let keys = listing.absent[rest..].iter().map(|absent| absent.rkey.clone()).collect();
            let (denied, next) = self.or_stop(server.denied(did, &listing.collection, keys)).await?;
            if matches!(next, Ok(true)) {
                let Delete { collection, rkey, .. } = &listing.absent[rest + denied];
                let uri = format!("at://{did}/{collection}/{rkey}");
                left_out.add(uri, "the PDS does not list it, although it has it");
                listing.disprove();
                return Ok(());
            }
            // Also before a failure, so that a PDS that allows few requests at a time gets on.
            let gone = listing.absent.drain(rest..rest + denied).collect();
            listing.denied += denied as i64;
            self.remove(gone).await?;
            next?;
            slow_guard::check(began.elapsed(), listing.denied - before)?;
        }
        Ok(())
    }

    /// Removes records, in parts. A job that stops breaks off between two parts, and inside one that scripts decide on.
    pub(super) async fn remove(&self, mut gone: Vec<Delete>) -> Result<(), Break> {
        while !gone.is_empty() {
            let rest = gone.split_off(gone.len().min(REMOVED_TOGETHER));
            let gone_now = gone.into_iter().map(Change::Delete).collect();
            let decided = if self.scripts.is_idle() {
                gone_now
            } else {
                self.or_stop(self.decide(gone_now)).await.map_err(|_| Break::Uncommitted)?
            };
            self.commit(decided).await?;
            gone = rest;
            if self.stop.is_cancelled() && !gone.is_empty() {
                return Err(Break::Uncommitted);
            }
        }
        Ok(())
    }
}
