//! Copies a repo of another host: by its log since the copy, or as a whole when the log does not connect (spaces-delta.md §4).

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use url::form_urlencoded;

use super::super::Spaces;
use super::super::delivery::pause_seconds;
use super::super::held_credential::HeldCredential;
use super::super::services::{Proof, ServiceCall, accepted};
use super::{ATTEMPT_TIME, Failure, count};
use crate::identity::DidDocument;
use belvedere_base::clock::Timestamp;
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_protocol::atproto::{Cid, Did, Tid, blobs, record};
use belvedere_protocol::spaces::access::ServiceRef;
use belvedere_protocol::spaces::oplog::{Op, Position};
use belvedere_protocol::spaces::r10::op::OpView;
use belvedere_protocol::spaces::r10::token::{KeyId, host_of};
use belvedere_protocol::spaces::r10::{Commit, SpaceCar};
use belvedere_protocol::spaces::{RecordPath, SpaceRepo};
use belvedere_storage::store::StoreError;
use belvedere_storage::store::spaces::copies::{self, DueCopy};
use belvedere_storage::store::spaces::repos;
use belvedere_storage::store::spaces::space::SpaceRow;
use belvedere_storage::store::spaces::writes::{
    MAX_RECORDS, NewRecord, ROW_BYTES, Synced, SyncedChange, Synchronized, replace, synchronize,
};
use belvedere_web::net::Limits;

/// Limits of a page of a log. Records are in it.
const LOG: Limits = Limits { max_bytes: 16 << 20, total: Duration::from_secs(30) };

/// Changes of a page.
const PAGE: &str = "200";

/// Changes and bytes after which a whole repo is cheaper than the rest of its log.
const MAX_CHANGES: usize = 10_000;
const MAX_LOG_BYTES: usize = 32 << 20;

/// Limits of a whole repo, which is in memory. A larger one is not copied.
const REPO: Limits = Limits { max_bytes: 32 << 20, total: Duration::from_mins(1) };

/// Bytes of a copy that is read as a whole again, because changes have added more than it can have. It has fewer afterwards.
const RECOUNTED_BYTES: u64 = REPO.max_bytes as u64 + MAX_RECORDS * ROW_BYTES;

/// Bytes of all copies in a space of another host, and of those in a space of this instance. Any user can follow a space that fills
/// the disk.
const MAX_SPACE_BYTES: u64 = 1 << 30;

/// The copies of a space have so many bytes that this one is not stored.
const FULL: Failure = Failure::Answer("the copies of the space have a gigabyte: no more are stored");

/// A server that may have a repo, and the key with which it signs commits.
struct Source {
    service: String,
    endpoint: String,
    signer: (Did, KeyId),
}

/// A repo to copy, and the way to it.
struct Reading<'a> {
    space: &'a SpaceRow,
    copy: &'a DueCopy,
    /// The rev of the copy.
    from: Option<Tid>,
    /// The rev from which its log is read; `None` to read the whole repo.
    since: Option<Tid>,
    /// The bytes that the copy may have.
    max_bytes: u64,
    credential: &'a HeldCredential,
    source: &'a Source,
}

#[derive(Deserialize)]
struct LogPage {
    ops: Vec<OpView>,
    #[serde(default)]
    cursor: Option<String>,
    /// On the page with the newest change.
    #[serde(default)]
    commit: Option<Value>,
}

impl Spaces {
    /// Copies a repo that is due, and stores when it is due again.
    pub(super) async fn pull(
        &self,
        space: &SpaceRow,
        copy: &DueCopy,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        let pulled = tokio::time::timeout(ATTEMPT_TIME, self.pull_from_any(space, copy)).await;
        let pulled = pulled.unwrap_or(Err(Failure::Answer("it takes too long")));
        let (has_failed, next) = match pulled {
            Ok(()) => (false, None),
            Err(Failure::Store(error)) if !error.is_of_value() => return Err(error),
            Err(error) => {
                let (uri, author) = (&space.uri, &copy.author);
                tracing::info!(space = %uri, %author, %error, "a repo of another host can't be copied");
                let pause = pause_seconds(copy.failures);
                (true, Some(self.core().clock.now().plus_seconds(pause)))
            }
        };
        count("repo", if has_failed { "failed" } else { "read" });
        copies::end(&self.core().db, copy, until, has_failed, next).await?;
        // A space is complete when its last repo is.
        self.0.changed.notify_one();
        Ok(())
    }

    async fn pull_from_any(&self, space: &SpaceRow, copy: &DueCopy) -> Result<(), Failure> {
        // A list may say so of a repo that was here: there is nothing to read.
        if copy.host.as_ref() == Some(&self.0.identity.did()) {
            return Ok(());
        }
        let db = &self.core().db;
        let state = repos::state(db, space.id, &copy.author).await?;
        let room = MAX_SPACE_BYTES.saturating_sub(copies::bytes(db, space.id).await?);
        if room == 0 && state.is_none() {
            return Err(FULL);
        }
        let copied = state.as_ref().and_then(|state| state.copied_bytes).unwrap_or_default();
        let max_bytes = copied + room;
        let mut from = state.map(|state| state.rev);
        let mut since = from.filter(|_| copied <= RECOUNTED_BYTES);
        let credential = self.reader(space).await?;
        let mut last = Failure::Answer("no server is known to have it");
        for source in self.sources(space, copy).await {
            let pulled = match source {
                Err(error) => Err(error),
                Ok(source) => {
                    let (credential, source) = (&*credential, &source);
                    let reading = Reading { space, copy, from, since, max_bytes, credential, source };
                    self.pull_from(&reading).await
                }
            };
            match pulled {
                Ok(rev) if rev >= Some(copy.rev) => return Ok(()),
                Ok(rev) => {
                    if rev > from {
                        (from, since) = (rev, rev);
                    }
                    last = Failure::Answer("its host does not have the rev of the list yet");
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The servers that may have a repo: the one that has named itself, or the PDS of the author and then the host of the space.
    async fn sources(&self, space: &SpaceRow, copy: &DueCopy) -> Vec<Result<Source, Failure>> {
        let services = &self.0.services;
        let host_of_spaces = async |did: &Did| {
            let endpoint = services.space_host(did).await?;
            Ok(Source { service: host_of(did), endpoint, signer: (did.clone(), KeyId::AtprotoSpace) })
        };
        if let Some(host) = &copy.host {
            return vec![host_of_spaces(host).await];
        }
        let pds = async {
            let author = &copy.author;
            let endpoint = services.endpoint(&ServiceRef { did: author.clone(), fragment: None }).await?;
            Ok(Source { service: author.to_string(), endpoint, signer: (author.clone(), KeyId::Atproto) })
        };
        let mut sources = vec![pds.await];
        if !space.is_hosted {
            sources.push(host_of_spaces(&space.uri.did).await);
        }
        sources
    }

    /// Copies a repo from one server. Returns the rev of the copy.
    async fn pull_from(&self, reading: &Reading<'_>) -> Result<Option<Tid>, Failure> {
        if let Some(since) = reading.since
            && let Some(rev) = self.pull_log(reading, since).await?
        {
            return Ok(Some(rev));
        }
        self.pull_repo(reading).await
    }

    /// Applies the log since a rev. `None` when it does not lead from there to its commit.
    async fn pull_log(&self, reading: &Reading<'_>, from: Tid) -> Result<Option<Tid>, Failure> {
        let (mut changes, mut bytes) = (Vec::new(), 0);
        let mut last = Some(Position::end_of(from));
        let mut cursor: Option<String> = None;
        let commit = loop {
            let mut more = vec![("since", from.to_string()), ("limit", PAGE.to_owned())];
            more.extend(cursor.map(|cursor| ("cursor", cursor)));
            let answer = self.ask(reading, "com.atproto.space.listRepoOps", &more, LOG).await?;
            // The rev is unknown there, or the log does not go back to it.
            if answer.0 == StatusCode::BAD_REQUEST {
                return Ok(None);
            }
            bytes += answer.1.len();
            let malformed = |_| Failure::Answer("its log is malformed");
            let page: LogPage = serde_json::from_slice(&answer.1).map_err(malformed)?;
            let ops =
                OpView::read_page(&page.ops, last).map_err(|_| Failure::Answer("its log is malformed"))?;
            // Otherwise a host could send such pages without an end.
            if ops.is_empty() && page.commit.is_none() {
                return Ok(None);
            }
            last = ops.last().map(|op| op.position).or(last);
            changes.extend(ops.into_iter().zip(page.ops));
            match (page.commit, page.cursor) {
                (Some(commit), _) => break Commit::from_json(&commit)?,
                (None, Some(next)) if changes.len() <= MAX_CHANGES && bytes <= MAX_LOG_BYTES => {
                    cursor = Some(next);
                }
                (None, _) => return Ok(None),
            }
        };
        self.verify(reading, &commit).await?;
        let changes = hand_over_thread(bytes, || with_records(changes));
        let result = synchronize(&self.core().db, &synced(reading, &commit, self.now()), &changes).await?;
        match result {
            Synchronized::Diverged | Synchronized::Full => Ok(None),
            result => settled(result, reading, &commit).map(Some),
        }
    }

    /// Replaces the copy by the whole repo.
    async fn pull_repo(&self, reading: &Reading<'_>) -> Result<Option<Tid>, Failure> {
        let (status, body) = self.ask(reading, "com.atproto.space.getRepo", &[], REPO).await?;
        if status != StatusCode::OK {
            return Err(Failure::Answer("its host does not have it"));
        }
        let (car, records) = hand_over_thread(body.len(), || {
            let car = SpaceCar::read(body)?;
            if !car.has_records() && !car.entries().is_empty() {
                return Err(Failure::Answer("its file lacks the records"));
            }
            let record = |(path, cid): &(RecordPath, Cid)| {
                let text = String::from_utf8(car.json(*cid)?.into());
                let text = text.map_err(|_| Failure::Answer("a record is not text"))?;
                Ok((path.clone(), NewRecord { cid: *cid, blobs: blobs::cids(&text), text }))
            };
            let records = car.entries().iter().map(record).collect::<Result<Vec<_>, Failure>>()?;
            Ok((car, records))
        })?;
        self.verify(reading, car.commit()).await?;
        let to = synced(reading, car.commit(), self.now());
        settled(replace(&self.core().db, &to, &records).await?, reading, car.commit()).map(Some)
    }

    /// The answer to a query about the repo, if its status is 200 or 400.
    async fn ask(
        &self,
        reading: &Reading<'_>,
        method: &str,
        more: &[(&str, String)],
        limits: Limits,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let Reading { space, copy, credential, source, .. } = reading;
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("space", &space.uri.to_string())
            .append_pair("repo", copy.author.as_str())
            .append_pair("did", copy.author.as_str())
            .extend_pairs(more)
            .finish();
        let call = ServiceCall { service: &source.service, endpoint: &source.endpoint, method, limits };
        let proof = Proof::Credential(credential, &copy.author);
        let answer = self.0.services.get(call, proof, &query).await?;
        if answer.status == StatusCode::BAD_REQUEST {
            return Ok((answer.status, answer.body));
        }
        Ok((StatusCode::OK, accepted(answer)?.body))
    }

    /// Checks the signature of a commit. A key that has changed is looked up again, once.
    async fn verify(&self, reading: &Reading<'_>, commit: &Commit) -> Result<(), Failure> {
        let repo = SpaceRepo { space: &reading.space.uri, author: &reading.copy.author };
        let (did, key_id) = &reading.source.signer;
        let resolver = self.core().resolver.for_reads();
        let checked = |document: &DidDocument| {
            let key = match key_id {
                KeyId::Atproto => document.signing_key(),
                KeyId::AtprotoSpace => document.space_key(),
            };
            let key = key.ok_or(Failure::Answer("the document of its host has no key for commits"))?;
            // The store compares the hash with that of the records.
            Ok::<(), Failure>(commit.verify(repo, key, &commit.hash)?)
        };
        let unresolved = |_| Failure::Answer("the document of its host can't be read");
        if checked(&*resolver.resolve(did).await.map_err(unresolved)?).is_ok() {
            return Ok(());
        }
        checked(&*resolver.refresh(did).await.map_err(unresolved)?)
    }

    fn now(&self) -> Timestamp {
        self.core().clock.now()
    }
}

fn synced<'a>(reading: &'a Reading<'_>, commit: &Commit, now: Timestamp) -> Synced<'a> {
    let Reading { space, copy, from, max_bytes, .. } = *reading;
    Synced { space: space.id, author: &copy.author, from, rev: commit.rev, hash: commit.hash, max_bytes, now }
}

/// The rev up to which nothing more is to be copied after an attempt to store it.
fn settled(result: Synchronized, reading: &Reading<'_>, commit: &Commit) -> Result<Tid, Failure> {
    match result {
        Synchronized::Stored | Synchronized::Old => Ok(commit.rev),
        // A repo that is here, and a space that is gone, need no copy, whatever the list says.
        Synchronized::Here | Synchronized::NoSpace => Ok(reading.copy.rev),
        Synchronized::Diverged => Err(Failure::Answer("its commit has the hash of other records")),
        Synchronized::Raced => Err(Failure::Answer("another host has copied it meanwhile")),
        Synchronized::Full => Err(FULL),
        Synchronized::TooLarge => Err(Failure::Answer("a record in it is too large, or it has too many")),
    }
}

/// The changes of a log. The last one of each path has the record, if the log carries it; a log that repeats large ones is read as a
/// whole repo instead.
fn with_records(changes: Vec<(Op, OpView)>) -> Vec<SyncedChange> {
    let mut records: HashMap<Cid, NewRecord> = HashMap::new();
    for (_, view) in &changes {
        let Some(value) = &view.value else { continue };
        let Ok(inspected) = record::inspect(value.get().as_bytes()) else { continue };
        let Ok(cid) = inspected.cid else { continue };
        let text = inspected.canonical.and_then(|text| String::from_utf8(text.into()).ok());
        let text = text.unwrap_or_else(|| value.get().to_owned());
        records.insert(cid, NewRecord { cid, blobs: blobs::cids(&text), text });
    }
    let (mut seen, mut bytes) = (HashSet::new(), 0);
    let change = |(op, _): (Op, OpView)| {
        let is_last = seen.insert(op.path.clone());
        let record = op.change.cid().filter(|_| is_last).and_then(|cid| records.get(&cid));
        bytes += record.map_or(0, |record| record.text.len());
        let record = record.filter(|_| bytes <= MAX_LOG_BYTES).cloned();
        SyncedChange { op, record }
    };
    let mut changes: Vec<SyncedChange> = changes.into_iter().rev().map(change).collect();
    changes.reverse();
    changes
}
