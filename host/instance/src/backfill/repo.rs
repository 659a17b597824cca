//! A repo that a job reads: how far it has come, and how an attempt can end.

use std::time::Duration;

use super::failure::{Attempts, Failure};
use super::left_out::LeftOut;
use super::listing::Listing;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::StoreError;

/// A repo to read, and how far it was read.
#[derive(Debug)]
pub(super) struct Repo {
    pub(super) did: Did,
    pub(super) attempts: Attempts,
    /// Empty before the first attempt.
    pub(super) listings: Vec<Listing>,
    pub(super) moves: u32,
    /// Bytes of its pages.
    pub(super) page_bytes: i64,
    /// Its source was chosen: it is not considered for a CAR again.
    pub(super) is_chosen: bool,
    /// The time that requests for its pages took, in all attempts. Waits between two attempts don't count.
    pub(super) spent: Duration,
    /// Records that were read before the job was continued.
    pub(super) restored: i64,
    /// The progress of the last attempt.
    pub(super) progress: u64,
}

/// The end of an attempt to read a repo.
#[derive(Debug)]
pub(super) enum RepoEnd {
    Read,
    Failed(Failure),
    /// The account is at another PDS.
    Moved(String),
    /// The job stops. The position is saved.
    Stopped,
}

/// The reason why an attempt was broken off.
pub(super) enum ReadError {
    Failed(Failure),
    Stopped,
    /// The job or the writer has ended before the last changes were committed: the position is not saved.
    Uncommitted,
    Store(StoreError),
}

impl From<Failure> for ReadError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Repo {
    pub(super) fn new(did: Did) -> Self {
        Self {
            did,
            attempts: Attempts::default(),
            listings: Vec::new(),
            moves: 0,
            page_bytes: 0,
            is_chosen: false,
            spent: Duration::ZERO,
            restored: 0,
            progress: 0,
        }
    }

    /// Records read so far.
    pub(super) fn records(&self) -> i64 {
        self.listings.iter().map(|listing| listing.records).sum()
    }

    /// The number of things that its PDS has given: records, and denials of records that its lists lack. Not pages: a
    /// page without records costs the PDS nothing, so it is no reason to go on.
    pub(super) fn given(&self) -> i64 {
        let denied = self.listings.iter().map(|listing| listing.denied).sum::<i64>();
        self.records() - self.restored + denied
    }

    /// The failure of a repo that was read, if anything was left out.
    pub(super) fn failure(&self) -> Option<Failure> {
        let mut all = LeftOut::default();
        self.listings.iter().for_each(|listing| all.append(listing.left_out.clone()));
        all.failure()
    }
}

#[cfg(test)]
mod tests {
    use super::super::page::ListedPage;
    use super::*;
    use belvedere_protocol::atproto::Nsid;

    #[test]
    fn records_and_denials_are_progress_and_pages_are_not() {
        let mut repo = Repo::new(Did::try_from("did:plc:abcdefghijklmnopqrstuvwx").unwrap());
        let mut listing = Listing::new(Nsid::try_from("com.example.note").unwrap());
        for n in 0..10 {
            listing
                .take_page(&ListedPage { next: Some("next".to_owned()), ..ListedPage::default() })
                .unwrap();
            listing.advance(None, Some(n.to_string()), 0).unwrap();
        }
        repo.listings.push(listing);
        assert_eq!(repo.given(), 0);
        repo.listings[0].advance(None, None, 7).unwrap();
        repo.listings[0].denied = 5;
        assert_eq!((repo.records(), repo.given()), (7, 12));
        repo.restored = 7;
        assert_eq!(repo.given(), 5);
    }
}
