//! Checks the CAR of a repo, and gives its records in pages like those of a PDS.

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use super::page::{ListedPage, ListedRecord};
use crate::identity::Resolver;
use crate::indexing::{Claim, ClaimedRecord};
use belvedere_base::clock::Clock;
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_protocol::atproto::repo_car::RecordList;
use belvedere_protocol::atproto::rev::is_of_the_future;
use belvedere_protocol::atproto::{Did, InvalidCar, Nsid, RecordKey, RepoCar, Tid};
use belvedere_protocol::crypto::{HighS, PublicKey};

/// Records of one page of a CAR. They are compared with the index at a time.
const PAGE_RECORDS: usize = 500;

/// Bytes of JSON after which a page ends. A page is in memory as a whole, and written in one piece between two batches of
/// the stream.
const PAGE_BYTES: usize = 1 << 20;

/// The records of a repo's wanted collections, as of a commit that its owner signed.
#[derive(Debug)]
pub(super) struct Car {
    did: Did,
    pub(super) rev: Tid,
    repo: RepoCar,
    lists: Vec<(Nsid, RecordList)>,
    /// Bytes of the records in the pages so far, as JSON.
    pub(super) given_bytes: usize,
    /// Given back when the CAR is no longer needed.
    _memory: OwnedSemaphorePermit,
}

/// A CAR that has arrived completely. Not checked.
#[derive(Debug)]
pub(super) struct CarFile {
    pub(super) bytes: Bytes,
    pub(super) memory: OwnedSemaphorePermit,
}

/// The reason why a CAR can't be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    #[error(transparent)]
    Invalid(#[from] InvalidCar),
    #[error("it is the repo of {0}")]
    OtherRepo(String),
    #[error("its rev {0} is of the future")]
    Future(Tid),
    #[error("its rev {0} is older than the repo's latest commit {1}")]
    Old(Tid, Tid),
    #[error("the DID document has no signing key")]
    NoKey,
    #[error("its commit is not signed with the account's key")]
    Signature,
    #[error("checking it failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

impl Car {
    /// Checks a CAR of the repo of `did`. `latest`: the rev of a commit that it contains or follows.
    pub(super) async fn check(
        file: CarFile,
        did: &Did,
        latest: Tid,
        collections: &[Nsid],
        resolver: &Resolver,
        clock: &Clock,
    ) -> Result<Self, Unusable> {
        let wanted = collections.to_vec();
        let did = did.clone();
        // Hashing takes long enough to delay other tasks. The memory is in use until
        // the end, even if the job has stopped waiting for it.
        let read = tokio::task::spawn_blocking(move || Self::read(file, did, wanted));
        let car = read.await??;
        let (did, commit) = (&car.did, car.repo.commit());
        if commit.did != did.as_str() {
            return Err(Unusable::OtherRepo(commit.did.chars().take(100).collect()));
        }
        if commit.rev < latest {
            return Err(Unusable::Old(commit.rev, latest));
        }
        if is_of_the_future(commit.rev, clock.now()) {
            return Err(Unusable::Future(commit.rev));
        }
        if !is_signed(&car.repo, resolver, did).await? {
            return Err(Unusable::Signature);
        }
        Ok(car)
    }

    /// The CAR without a check of whose it is.
    fn read(file: CarFile, did: Did, collections: Vec<Nsid>) -> Result<Self, InvalidCar> {
        let CarFile { bytes, memory } = file;
        let repo = RepoCar::read(bytes)?;
        let lists = repo.records(&collections)?;
        let lists = collections.into_iter().zip(lists).collect();
        Ok(Self { did, rev: repo.commit().rev, repo, lists, given_bytes: 0, _memory: memory })
    }

    /// Leaves out the records of a collection from `key` upwards.
    pub(super) fn skip_from(&mut self, collection: &Nsid, key: &RecordKey) {
        if let Some(list) = self.list(collection) {
            let end = list.partition_point(|(other, _)| other.as_str() < key.as_str());
            list.truncate(end);
        }
    }

    /// The next page of a collection, the highest record keys first. Without a cursor after the last one.
    pub(super) fn page(&mut self, collection: &Nsid) -> Result<ListedPage, InvalidCar> {
        // A small CAR may have a record under many keys, so its size says nothing about that of a page.
        hand_over_thread(PAGE_BYTES, || self.build_page(collection))
    }

    fn build_page(&mut self, collection: &Nsid) -> Result<ListedPage, InvalidCar> {
        let (mut page, mut bytes) = (ListedPage::default(), 0);
        while page.records.len() < PAGE_RECORDS && bytes < PAGE_BYTES {
            let Some((rkey, cid)) = self.list(collection).and_then(Vec::pop) else { break };
            let text = self.repo.json(cid)?;
            bytes += text.len();
            page.records.push(ListedRecord { rkey, record: ClaimedRecord { text, claim: Claim::Cid(cid) } });
        }
        if self.list(collection).is_some_and(|list| !list.is_empty()) {
            page.next = page.records.last().map(|last| last.rkey.to_string());
        }
        self.given_bytes += bytes;
        Ok(page)
    }

    fn list(&mut self, collection: &Nsid) -> Option<&mut RecordList> {
        self.lists.iter_mut().find(|(nsid, _)| nsid == collection).map(|(_, list)| list)
    }
}

/// Whether the commit is signed with the account's key, which may have changed since the DID was looked up.
async fn is_signed(repo: &RepoCar, resolver: &Resolver, did: &Did) -> Result<bool, Unusable> {
    let commit = repo.commit();
    let is_signed_with =
        |key: &PublicKey| key.verify(&commit.signed, &commit.signature, HighS::Refuse).is_ok();
    let known = resolver.resolve(did).await.ok().and_then(|document| document.signing_key().cloned());
    if known.as_ref().is_some_and(is_signed_with) {
        return Ok(true);
    }
    let document = resolver.refresh(did).await.ok();
    let key = document.as_ref().and_then(|document| document.signing_key()).ok_or(Unusable::NoKey)?;
    Ok(is_signed_with(key))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use belvedere_standins::cars::{Records, car};
    use serde_json::json;
    use tokio::sync::Semaphore;

    use super::*;

    #[test]
    fn pages_end_by_their_records_and_their_bytes() {
        const DID: &str = "did:plc:abcdefghijklmnopqrstuvwx";
        let notes = Nsid::try_from("com.example.note").unwrap();
        for (count, text_bytes, expected) in
            [(0, 1, vec![0]), (500, 1, vec![500]), (501, 1, vec![500, 1]), (25, 100_000, vec![11, 11, 3])]
        {
            let of = |n: usize| (format!("3k{n:05}"), json!({ "n": n, "text": "x".repeat(text_bytes) }));
            let records = Records::from([(notes.to_string(), (0..count).map(of).collect())]);
            let bytes = car(DID, "3mptbypluud2a", &records, None).into();
            let memory = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
            let did = Did::try_from(DID).unwrap();
            let mut car = Car::read(CarFile { bytes, memory }, did, vec![notes.clone()]).unwrap();
            let (mut sizes, mut keys) = (Vec::new(), Vec::new());
            loop {
                let page = car.page(&notes).unwrap();
                sizes.push(page.records.len());
                keys.extend(page.records.into_iter().map(|record| record.rkey.to_string()));
                let Some(cursor) = page.next else { break };
                assert_eq!(keys.last(), Some(&cursor));
            }
            assert_eq!((sizes, keys.len()), (expected, count), "{count} of {text_bytes} bytes");
            assert!(keys.is_sorted_by(|a, b| a > b));
        }
    }
}
