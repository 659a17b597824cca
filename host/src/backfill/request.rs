//! Requests to other servers: the XRPC queries that backfills use.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

use super::failure::{ErrorKind, Failure};
use super::meter::{Meter, Source};
use crate::atproto::{Did, Nsid, Tid};
use crate::clock::Clock;
use crate::net::{ArrivingResponse, Client, Limits, NetError};

/// From the DNS look-up to the last byte of a response (admin-api.md §12.3).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// From the DNS look-up to the last byte of a CAR: the largest one at half a megabyte a second.
const CAR_TIMEOUT: Duration = Duration::from_mins(1);

/// Bytes of a CAR that one permit of the memory for CARs stands for.
pub(super) const MEMORY_UNIT: usize = 1 << 20;

/// How much the clock of a PDS may differ from this host's, in seconds.
const MAX_CLOCK_DIFFERENCE_SECONDS: i64 = 300;

/// Records of one page: the most that PDSs give.
pub(super) const PAGE_RECORDS: usize = 100;

/// Bytes of one page. Larger pages are asked for in smaller parts; a record alone has at most 1 MiB.
const PAGE_BYTES: usize = 4 << 20;

/// Repos of one page of the relay's list (admin-api.md §12.1).
const REPOS_PER_PAGE: &str = "1000";

/// Sends queries to one server.
#[derive(Clone, Debug)]
pub(super) struct Server<'a> {
    pub(super) net: &'a Client,
    pub(super) clock: &'a Clock,
    /// Without a trailing slash.
    pub(super) origin: &'a str,
    pub(super) meter: &'a Meter,
}

/// A page of the records of a collection, as its PDS gives it.
#[derive(Debug)]
pub(super) struct RecordPage {
    pub(super) cursor: Option<String>,
    pub(super) records: Vec<PageRecord>,
    /// Records without a URI, a CID or a value.
    pub(super) malformed: usize,
    /// Bytes of the response; 0 if the page is part of a CAR.
    pub(super) bytes: usize,
}

#[derive(Debug)]
pub(super) struct PageRecord {
    pub(super) uri: String,
    /// JSON text of the claimed CID.
    pub(super) cid: String,
    /// JSON text of the record.
    pub(super) value: Bytes,
}

/// A page of the relay's list of repos.
#[derive(Debug, Deserialize)]
pub(super) struct RepoPage {
    pub(super) cursor: Option<String>,
    pub(super) repos: Vec<ListedRepo>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ListedRepo {
    pub(super) did: String,
}

#[derive(Deserialize)]
struct RecordsOutput<'a> {
    cursor: Option<String>,
    #[serde(borrow)]
    records: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct RecordOutput<'a> {
    uri: String,
    #[serde(borrow)]
    cid: &'a RawValue,
    #[serde(borrow)]
    value: &'a RawValue,
}

#[derive(Deserialize)]
struct LatestCommit {
    rev: String,
}

#[derive(Deserialize)]
struct Description {
    collections: Vec<String>,
}

/// A CAR that has arrived completely. Not checked.
#[derive(Debug)]
pub(super) struct CarFile {
    pub(super) bytes: Bytes,
    pub(super) memory: OwnedSemaphorePermit,
}

/// Why there is no CAR.
#[derive(Debug)]
pub(super) enum NoCar {
    /// The server has no CARs for anybody, or not for this server.
    Refused(Failure),
    Failed(Failure),
    /// After this many bytes, it was larger than allowed.
    TooLarge(usize),
    /// After this many bytes, other CARs needed the memory.
    NoMemory(usize),
}

enum GetError {
    TooLarge,
    Failed(Failure),
}

impl Server<'_> {
    /// The rev of a repo's latest commit. Also tells why a repo can't be read. A rev of the future would keep the repo's
    /// later commits out of the index.
    pub(super) async fn latest_rev(&self, did: &Did) -> Result<Tid, Failure> {
        let body = self.get("com.atproto.sync.getLatestCommit", &[("did", did.as_str())]).await?;
        let commit: LatestCommit = parse(&body)?;
        let rev = Tid::try_from(commit.rev.as_str())
            .map_err(|_| Failure::new(ErrorKind::PdsServerError, "the latest commit has no valid rev"))?;
        if is_of_the_future(rev, self.clock) {
            return Err(Failure::other(format!("the rev of the latest commit, {rev}, is of the future")));
        }
        Ok(rev)
    }

    /// A page of at most `limit` records of a collection. Lowers the limit if the page is too large.
    pub(super) async fn records(
        &self,
        did: &Did,
        collection: &Nsid,
        cursor: Option<&str>,
        limit: &mut usize,
    ) -> Result<RecordPage, Failure> {
        loop {
            let text = limit.to_string();
            let mut query =
                vec![("repo", did.as_str()), ("collection", collection.as_str()), ("limit", text.as_str())];
            query.extend(cursor.map(|cursor| ("cursor", cursor)));
            match self.try_get("com.atproto.repo.listRecords", &query).await {
                Ok(body) => return record_page(&body),
                Err(GetError::Failed(failure)) => return Err(failure),
                Err(GetError::TooLarge) if *limit > 1 => *limit = (*limit / 5).max(1),
                Err(GetError::TooLarge) => {
                    return Err(Failure::other(format!(
                        "a page of one record is larger than {PAGE_BYTES} bytes"
                    )));
                }
            }
        }
    }

    /// The record of a collection with the lowest key, if there is one.
    pub(super) async fn oldest(&self, did: &Did, collection: &Nsid) -> Result<RecordPage, Failure> {
        let query = [
            ("repo", did.as_str()),
            ("collection", collection.as_str()),
            ("limit", "1"),
            ("reverse", "true"),
        ];
        record_page(&self.get("com.atproto.repo.listRecords", &query).await?)
    }

    /// A page of the repos that have records of a collection, as the relay knows them.
    pub(super) async fn repos(&self, collection: &Nsid, cursor: Option<&str>) -> Result<RepoPage, Failure> {
        let mut query = vec![("collection", collection.as_str()), ("limit", REPOS_PER_PAGE)];
        query.extend(cursor.map(|cursor| ("cursor", cursor)));
        parse(&self.get("com.atproto.sync.listReposByCollection", &query).await?)
    }

    /// The collections of which a repo has records.
    pub(super) async fn collections(&self, did: &Did) -> Result<Vec<String>, Failure> {
        let body = self.get("com.atproto.repo.describeRepo", &[("repo", did.as_str())]).await?;
        let Description { collections } = parse(&body)?;
        Ok(collections)
    }

    /// The whole repo as a CAR of at most `max_bytes`, which takes its memory from `memory`.
    pub(super) async fn car(
        &self,
        did: &Did,
        max_bytes: usize,
        memory: &Arc<Semaphore>,
    ) -> Result<CarFile, NoCar> {
        let reserve = || Arc::clone(memory).try_acquire_owned().ok();
        let Some(mut reserved) = reserve() else { return Err(NoCar::NoMemory(0)) };
        let url = self.url("com.atproto.sync.getRepo", &[("did", did.as_str())]).map_err(NoCar::Failed)?;
        let limits = Limits { max_bytes, total: CAR_TIMEOUT };
        self.meter.requested(Source::Car);
        let mut bytes = BytesMut::new();
        let failed = |error, arrived| match error {
            NetError::TooLarge(_) => NoCar::TooLarge(arrived),
            error => NoCar::Failed(Failure::of_net(&error)),
        };
        let opened = self.net.open(Method::GET, url.as_str(), HeaderMap::new(), None, limits).await;
        let mut response = opened.map_err(|error| failed(error, 0))?;
        if !response.status.is_success() {
            return Err(self.no_car(response).await);
        }
        while let Some(chunk) = response.chunk().await.map_err(|error| failed(error, bytes.len()))? {
            self.meter.received(Source::Car, chunk.len());
            while bytes.len() + chunk.len() > reserved.num_permits() * MEMORY_UNIT {
                // Waiting would be a deadlock: others may wait for what this one has.
                let Some(more) = reserve() else { return Err(NoCar::NoMemory(bytes.len())) };
                reserved.merge(more);
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(CarFile { bytes: bytes.freeze(), memory: reserved })
    }

    /// Why a server responds with an error instead of a CAR.
    async fn no_car(&self, response: ArrivingResponse) -> NoCar {
        let status = response.status;
        let response = match response.complete().await {
            Ok(response) => response,
            Err(error) => return NoCar::Failed(Failure::of_net(&error)),
        };
        let failure = Failure::of_response(&response, self.clock.now());
        let is_about_method = matches!(
            status,
            StatusCode::UNAUTHORIZED
                | StatusCode::FORBIDDEN
                | StatusCode::NOT_FOUND
                | StatusCode::METHOD_NOT_ALLOWED
                | StatusCode::NOT_IMPLEMENTED
        );
        if is_about_method && matches!(failure.kind, ErrorKind::Other | ErrorKind::PdsServerError) {
            NoCar::Refused(failure)
        } else {
            NoCar::Failed(failure)
        }
    }

    async fn get(&self, method: &str, query: &[(&str, &str)]) -> Result<Bytes, Failure> {
        self.try_get(method, query).await.map_err(|error| match error {
            GetError::Failed(failure) => failure,
            GetError::TooLarge => Failure::other(format!("the answer is larger than {PAGE_BYTES} bytes")),
        })
    }

    async fn try_get(&self, method: &str, query: &[(&str, &str)]) -> Result<Bytes, GetError> {
        let url = self.url(method, query).map_err(GetError::Failed)?;
        let limits = Limits { max_bytes: PAGE_BYTES, total: REQUEST_TIMEOUT };
        self.meter.requested(Source::Pages);
        let response = match self.net.get(url.as_str(), limits).await {
            Ok(response) => response,
            Err(NetError::TooLarge(bytes)) => {
                self.meter.received(Source::Pages, bytes);
                return Err(GetError::TooLarge);
            }
            Err(error) => return Err(GetError::Failed(Failure::of_net(&error))),
        };
        self.meter.received(Source::Pages, response.body.len());
        if response.status.is_success() {
            Ok(response.body)
        } else {
            Err(GetError::Failed(Failure::of_response(&response, self.clock.now())))
        }
    }

    fn url(&self, method: &str, query: &[(&str, &str)]) -> Result<Url, Failure> {
        let url = Url::parse(self.origin).and_then(|url| url.join(&format!("/xrpc/{method}")));
        let mut url = url.map_err(|error| Failure::other(format!("not a URL: {error}")))?;
        url.query_pairs_mut().extend_pairs(query);
        Ok(url)
    }
}

/// Whether no clock that is about right has made this rev yet.
pub(super) fn is_of_the_future(rev: Tid, clock: &Clock) -> bool {
    let latest = clock.now().plus_seconds(MAX_CLOCK_DIFFERENCE_SECONDS).0;
    i64::try_from(rev.timestamp_micros()).map_or(true, |micros| micros > latest)
}

fn record_page(body: &Bytes) -> Result<RecordPage, Failure> {
    let RecordsOutput { cursor, records: listed } = parse(body)?;
    let mut records = Vec::with_capacity(listed.len());
    let mut malformed = 0;
    for raw in listed {
        match serde_json::from_str::<RecordOutput<'_>>(raw.get()) {
            Ok(record) => records.push(PageRecord {
                uri: record.uri,
                cid: record.cid.get().to_owned(),
                value: Bytes::copy_from_slice(record.value.get().as_bytes()),
            }),
            Err(_) => malformed += 1,
        }
    }
    // A PDS may send an empty cursor instead of none.
    let cursor = cursor.filter(|cursor| !cursor.is_empty());
    Ok(RecordPage { cursor, records, malformed, bytes: body.len() })
}

/// A body that is not the method's output is the server's failure: a proxy answers with a page of its own, for example.
fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Failure> {
    serde_json::from_slice(body)
        .map_err(|error| Failure::new(ErrorKind::PdsServerError, format!("unexpected response: {error}")))
}

#[cfg(test)]
mod tests {
    use belvedere_standins::repos::{Fault, RepoNetwork, Site};
    use serde_json::json;

    use super::*;
    use crate::net::tests::loopback;

    #[test]
    fn a_malformed_record_does_not_spoil_its_page() {
        let body = br#"{"cursor":"","records":[{"uri":"at://x","cid":"bafy","value":{"a":1}},{"uri":7},3]}"#;
        let page = record_page(&Bytes::from_static(body)).unwrap();
        assert_eq!((page.cursor, page.records.len(), page.malformed), (None, 1, 2));
        assert_eq!((&page.records[0].value[..], &*page.records[0].cid), (&br#"{"a":1}"#[..], "\"bafy\""));
        for body in ["<html>", "[]", "{}", r#"{"records":{}}"#, r#"{"cursor":7,"records":[]}"#] {
            let failure = record_page(&Bytes::from(body)).unwrap_err();
            assert_eq!(failure.kind, ErrorKind::PdsServerError, "{body}");
        }
    }
    #[tokio::test]
    async fn cars_are_bounded_and_share_their_memory() {
        const DID: &str = "did:plc:abcdefghijklmnopqrstuvwx";
        let (network, did) = (RepoNetwork::start(1).await, Did::try_from(DID).unwrap());
        network.serve_cars();
        network.account(DID, 0);
        for rkey in ["a", "b"] {
            network.put(
                DID,
                "com.example.note",
                rkey,
                json!({ "text": format!("{rkey}{}", "x".repeat(800_000)) }),
            );
        }
        let (net, clock, meter, origin) = (loopback(), Clock::system(), Meter::default(), network.pds_url(0));
        let server = Server { net: &net, clock: &clock, origin: &origin, meter: &meter };
        let memory = |units| Arc::new(Semaphore::new(units));

        let enough = memory(3);
        let file = server.car(&did, 2_000_000, &enough).await.unwrap();
        assert!((1_600_000..1_700_000).contains(&file.bytes.len()), "{}", file.bytes.len());
        assert_eq!((meter.traffic().car_bytes, enough.available_permits()), (file.bytes.len() as i64, 1));
        let other = server.car(&did, 2_000_000, &enough).await.unwrap_err();
        assert!(matches!(other, NoCar::NoMemory(bytes) if bytes > 0), "{other:?}");
        drop(file);
        assert_eq!(enough.available_permits(), 3, "given back");
        let large = server.car(&did, 1_000_000, &enough).await.unwrap_err();
        assert!(matches!(large, NoCar::TooLarge(bytes) if bytes <= 1_000_000), "{large:?}");
        let before = meter.traffic().car_requests;
        assert!(matches!(server.car(&did, 1_000_000, &memory(0)).await, Err(NoCar::NoMemory(0))));
        assert_eq!(meter.traffic().car_requests, before, "not even requested");

        for (status, error, is_refused, kind) in [
            (501, "MethodNotImplemented", true, ErrorKind::PdsServerError),
            (404, "XRPCNotSupported", true, ErrorKind::Other),
            (403, "", true, ErrorKind::Other),
            (400, "InvalidRequest", false, ErrorKind::Other),
            (404, "RepoNotFound", false, ErrorKind::RepoNotFound),
            (400, "RepoTakendown", false, ErrorKind::RepoTakendown),
            (503, "", false, ErrorKind::PdsServerError),
            (429, "", false, ErrorKind::RateLimited),
        ] {
            let body = format!("{{\"error\":\"{error}\"}}");
            network.faults(Site::Pds(0), move |_| Some(Fault::Status(status, Vec::new(), body.clone())));
            match server.car(&did, 1_000_000, &enough).await {
                Err(NoCar::Refused(failure)) => {
                    assert_eq!((true, failure.kind), (is_refused, kind), "{status}")
                }
                Err(NoCar::Failed(failure)) => {
                    assert_eq!((false, failure.kind), (is_refused, kind), "{status}")
                }
                other => panic!("{status}: {other:?}"),
            }
        }
        network.faults(Site::Pds(0), |_| Some(Fault::Reset));
        let reset = server.car(&did, 2_000_000, &enough).await.unwrap_err();
        assert!(
            matches!(reset, NoCar::Failed(Failure { kind: ErrorKind::ConnectionFailed, .. })),
            "{reset:?}"
        );
    }
}
