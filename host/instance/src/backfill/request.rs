//! Requests to other servers: the XRPC queries that backfills use.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use url::Url;

use super::failure::{ErrorKind, Failure, Missing};
use super::meter::{Meter, Source};
use super::page::{RecordPage, parse};
use belvedere_base::clock::Clock;
use belvedere_protocol::atproto::rev::is_of_the_future;
use belvedere_protocol::atproto::{Did, Nsid, RecordKey, Tid};
use belvedere_web::net::{Client, Limits, NetError};

/// From the DNS look-up to the last byte of a response (admin-api.md §12.3).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

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

/// A list of repos at the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RepoList<'a> {
    /// Those that have records of a collection.
    Of(&'a Nsid),
    /// All, for relays that don't have the other list.
    All,
}

/// A page of a relay's list of repos.
#[derive(Debug)]
pub(super) struct RepoPage {
    /// Absent on the last page. A page without repos may have one.
    pub(super) cursor: Option<String>,
    pub(super) dids: Vec<Did>,
    /// Entries without a valid DID.
    pub(super) skipped: usize,
}

#[derive(Deserialize)]
struct ReposOutput<'a> {
    cursor: Option<String>,
    #[serde(borrow)]
    repos: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct ListedRepo {
    did: String,
    active: Option<bool>,
}

#[derive(Deserialize)]
struct LatestCommit {
    rev: String,
}

#[derive(Deserialize)]
struct Description {
    collections: Vec<String>,
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
        if is_of_the_future(rev, self.clock.now()) {
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
                Ok(body) => return RecordPage::parse(&body),
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
        RecordPage::parse(&self.get("com.atproto.repo.listRecords", &query).await?)
    }

    /// Whether the repo has a record. `false` only when its PDS says so: an answer that does not is a failure.
    pub(super) async fn has_record(
        &self,
        did: &Did,
        collection: &Nsid,
        rkey: &RecordKey,
    ) -> Result<bool, Failure> {
        let query = [("repo", did.as_str()), ("collection", collection.as_str()), ("rkey", rkey.as_str())];
        match self.try_get("com.atproto.repo.getRecord", &query).await {
            Ok(_) | Err(GetError::TooLarge) => Ok(true),
            Err(GetError::Failed(failure)) => match failure.missing {
                Some(Missing::Record) => Ok(false),
                // Not a failure of the host: its lists are read without this method.
                Some(Missing::Method | Missing::Path) => {
                    Err(Failure::other("the PDS can't be asked for a record, so what its list lacks is kept"))
                }
                None => Err(failure),
            },
        }
    }

    /// A page of repos, as the relay knows them. Repos that it says to be inactive are left out.
    pub(super) async fn repos(&self, list: RepoList<'_>, cursor: Option<&str>) -> Result<RepoPage, Failure> {
        let mut query = vec![("limit", REPOS_PER_PAGE)];
        query.extend(cursor.map(|cursor| ("cursor", cursor)));
        let method = match list {
            RepoList::Of(collection) => {
                query.push(("collection", collection.as_str()));
                "com.atproto.sync.listReposByCollection"
            }
            RepoList::All => "com.atproto.sync.listRepos",
        };
        repo_page(&self.get(method, &query).await?)
    }

    /// The collections of which a repo has records.
    pub(super) async fn collections(&self, did: &Did) -> Result<Vec<String>, Failure> {
        let body = self.get("com.atproto.repo.describeRepo", &[("repo", did.as_str())]).await?;
        let Description { collections } = parse(&body)?;
        Ok(collections)
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

    pub(super) fn url(&self, method: &str, query: &[(&str, &str)]) -> Result<Url, Failure> {
        let url = Url::parse(self.origin).and_then(|url| url.join(&format!("/xrpc/{method}")));
        let mut url = url.map_err(|error| Failure::other(format!("not a URL: {error}")))?;
        url.query_pairs_mut().extend_pairs(query);
        Ok(url)
    }
}

fn repo_page(body: &Bytes) -> Result<RepoPage, Failure> {
    let ReposOutput { cursor, repos } = parse(body)?;
    let (mut dids, mut skipped) = (Vec::with_capacity(repos.len()), 0);
    for raw in repos {
        let listed = serde_json::from_str::<ListedRepo>(raw.get()).ok();
        match listed.and_then(|repo| Some((Did::try_from(repo.did.as_str()).ok()?, repo.active))) {
            Some((did, None | Some(true))) => dids.push(did),
            Some((_, Some(false))) => {}
            None => skipped += 1,
        }
    }
    Ok(RepoPage { cursor: cursor.filter(|cursor| !cursor.is_empty()), dids, skipped })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_without_a_did_does_not_spoil_its_page() {
        let body = br#"{"cursor":"x","repos":[{"did":"did:plc:a"},{},{"did":7},{"did":"nope"},"did:plc:b",
            {"did":"did:plc:c","active":true,"rev":"3"},{"did":"did:plc:d","active":false,"status":"takendown"}]}"#;
        let page = repo_page(&Bytes::from_static(body)).unwrap();
        let dids: Vec<_> = page.dids.iter().map(Did::as_str).collect();
        assert_eq!(
            (page.cursor.as_deref(), &*dids, page.skipped),
            (Some("x"), &["did:plc:a", "did:plc:c"][..], 4)
        );
        assert_eq!(repo_page(&Bytes::from_static(br#"{"cursor":"","repos":[]}"#)).unwrap().cursor, None);
        assert_eq!(repo_page(&Bytes::from_static(b"{}")).unwrap_err().kind, ErrorKind::PdsServerError);
    }
}
