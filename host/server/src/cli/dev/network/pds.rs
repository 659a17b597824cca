//! The PDS of all accounts: the methods by which a server writes, reads and lists records, and those of a relay. Everything is in
//! memory.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};

use super::accounts::{Account, Accounts, signing_key};
use super::answers::{answer, json_answer, refusal};
use super::authorization::{access_token, caller};
use crate::cli::stand_in_pds::{self, Answered};
use belvedere_base::clock::Timestamp;
use belvedere_base::random::Random;
use belvedere_protocol::atproto::{RecordUri, blob_cid};
use belvedere_protocol::crypto::jws;
use belvedere_web::net::FetchedResponse;

/// Bytes of all blobs. They are in memory.
const MAX_BLOB_BYTES: usize = 256 << 20;

/// Records of all repos. They are in memory.
const MAX_RECORDS: usize = 1_000_000;

/// Records of a page.
const MAX_PAGE: usize = 100;

/// Seconds for which a service token is valid.
const SERVICE_TOKEN_SECONDS: i64 = 60;

/// A call of a method.
pub(super) struct Call<'a> {
    pub(super) nsid: &'a str,
    pub(super) query: HashMap<String, String>,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a Bytes,
    pub(super) now: Timestamp,
}

impl Call<'_> {
    fn parameter(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }
}

/// Collection and record key.
type Place = (String, String);

#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) cid: String,
    record: Value,
}

#[derive(Debug, Default)]
struct Repo {
    rev: String,
    records: BTreeMap<Place, Stored>,
}

#[derive(Debug, Default)]
pub(super) struct Pds {
    repos: BTreeMap<String, Repo>,
    records: usize,
    writes: u64,
    blobs: HashMap<String, (String, Bytes)>,
    blob_bytes: usize,
}

impl Pds {
    /// The answer to a call, and the events of its writes.
    pub(super) fn answer(&mut self, call: &Call<'_>, accounts: &Accounts) -> (FetchedResponse, Vec<Value>) {
        let known = caller(call.headers).and_then(|did| accounts.find(did));
        if let Some(read) = self.read(call, accounts) {
            return (read, Vec::new());
        }
        let account = match known {
            Some(account) => account,
            None if call.nsid == "com.atproto.server.createSession" => {
                return (create_session(call, accounts), Vec::new());
            }
            None => {
                let text = "log in: the token is not one of this stand-in";
                return (refusal(StatusCode::UNAUTHORIZED, "InvalidToken", text), Vec::new());
            }
        };
        let answer = match call.nsid {
            "com.atproto.server.getSession" => session(account),
            "com.atproto.server.getServiceAuth" => service_token(call, account),
            "com.atproto.repo.uploadBlob" => self.upload(call),
            nsid => return self.write(nsid, call.body, Some(account), call.now),
        };
        (answer, Vec::new())
    }

    /// Carries out a method that writes. `account`: the caller, who owns the repo; `None` for a seed.
    pub(super) fn write(
        &mut self,
        nsid: &str,
        body: &[u8],
        account: Option<&Account>,
        now: Timestamp,
    ) -> (FetchedResponse, Vec<Value>) {
        let repo = serde_json::from_slice::<Value>(body)
            .ok()
            .and_then(|body| Some(body["repo"].as_str()?.to_owned()));
        if account.is_some_and(|account| repo.is_some_and(|repo| repo != account.did)) {
            let text = "repo must be the DID of the account that is logged in";
            return (refusal(StatusCode::FORBIDDEN, "Forbidden", text), Vec::new());
        }
        if self.records >= MAX_RECORDS {
            let text = "the stand-in network is full: begin again";
            return (refusal(StatusCode::INSUFFICIENT_STORAGE, "Full", text), Vec::new());
        }
        self.writes += 1;
        let Some(Answered { status, body, writes }) = stand_in_pds::answer(nsid, body, now, self.writes)
        else {
            let text = format!("belvedere dev's PDS has no method {nsid}");
            return (refusal(StatusCode::NOT_IMPLEMENTED, "MethodNotImplemented", &text), Vec::new());
        };
        let rev = body["commit"]["rev"].as_str().unwrap_or_default().to_owned();
        let events = writes.iter().filter_map(|write| self.apply(write, &rev)).collect();
        (json_answer(status, &body), events)
    }

    /// Stores a write that was accepted. Returns its event.
    fn apply(&mut self, write: &Value, rev: &str) -> Option<Value> {
        let uri = RecordUri::parse(write["uri"].as_str()?).ok()?;
        let (collection, rkey) = (uri.collection.as_str(), uri.rkey.as_str());
        let place = (collection.to_owned(), rkey.to_owned());
        let repo = self.repos.entry(uri.did.as_str().to_owned()).or_default();
        rev.clone_into(&mut repo.rev);
        let cid = write["cid"].as_str();
        let is_known = match cid {
            Some(cid) => {
                let stored = Stored { cid: cid.to_owned(), record: write["record"].clone() };
                repo.records.insert(place, stored).is_some()
            }
            None => repo.records.remove(&place).is_some(),
        };
        match (cid.is_some(), is_known) {
            (true, false) => self.records += 1,
            (false, true) => self.records -= 1,
            (false, false) => return None,
            (true, true) => {}
        }
        Some(event(uri.did.as_str(), rev, (collection, rkey), cid.map(|cid| (cid, &write["record"]))))
    }

    /// The record at a place.
    pub(super) fn get(&self, did: &str, collection: &str, rkey: &str) -> Option<&Stored> {
        self.repos.get(did)?.records.get(&(collection.to_owned(), rkey.to_owned()))
    }

    /// The events of all records, as they would be if they were written now.
    pub(super) fn events(&self) -> Vec<Value> {
        let repos = self
            .repos
            .iter()
            .flat_map(|(did, repo)| repo.records.iter().map(move |record| (did, repo, record)));
        repos
            .map(|(did, repo, ((collection, rkey), Stored { cid, record }))| {
                event(did, &repo.rev, (collection.as_str(), rkey.as_str()), Some((cid.as_str(), record)))
            })
            .collect()
    }

    /// Answers a method that needs no login.
    fn read(&self, call: &Call<'_>, accounts: &Accounts) -> Option<FetchedResponse> {
        let repo = accounts.find(if call.query.contains_key("repo") {
            call.parameter("repo")
        } else {
            call.parameter("did")
        });
        let missing = |error: &str| Some(refusal(StatusCode::BAD_REQUEST, error, "it does not exist"));
        let records = || repo.and_then(|account| self.repos.get(&account.did));
        let uri = |account: &Account, collection: &str, rkey: &str| {
            format!("at://{}/{collection}/{rkey}", account.did)
        };
        let found = match call.nsid {
            "com.atproto.identity.resolveHandle" => {
                let Some(account) = accounts.find(call.parameter("handle")) else {
                    return missing("HandleNotFound");
                };
                json!({ "did": account.did })
            }
            "com.atproto.server.describeServer" => {
                json!({ "did": "did:web:localhost", "availableUserDomains": [] })
            }
            "com.atproto.repo.getRecord" => {
                let (collection, rkey) = (call.parameter("collection"), call.parameter("rkey"));
                let stored =
                    repo.and_then(|account| Some((account, self.get(&account.did, collection, rkey)?)));
                let Some((account, Stored { cid, record })) = stored else {
                    return missing("RecordNotFound");
                };
                json!({ "uri": uri(account, collection, rkey), "cid": cid, "value": record })
            }
            "com.atproto.repo.listRecords" => {
                let Some(account) = repo else { return missing("RepoNotFound") };
                self.list(call, account)
            }
            "com.atproto.sync.getLatestCommit" => {
                let Some(Repo { rev, .. }) = records() else { return missing("RepoNotFound") };
                json!({ "cid": blob_cid(rev.as_bytes()).to_string(), "rev": rev })
            }
            "com.atproto.sync.getRepoStatus" => {
                let Some(account) = repo else { return missing("RepoNotFound") };
                json!({ "did": account.did, "active": true, "rev": records().map(|repo| &repo.rev) })
            }
            "com.atproto.sync.listReposByCollection" | "com.atproto.sync.listRepos" => {
                let repos = self.repos.iter().map(|(did, repo)| {
                    json!({ "did": did, "rev": repo.rev, "head": blob_cid(repo.rev.as_bytes()).to_string(), "active": true })
                });
                json!({ "repos": repos.collect::<Vec<_>>() })
            }
            "com.atproto.sync.getBlob" => {
                let Some((kind, bytes)) = self.blobs.get(call.parameter("cid")) else {
                    return missing("BlobNotFound");
                };
                return Some(answer(StatusCode::OK, kind, bytes.clone()));
            }
            _ => return None,
        };
        Some(json_answer(StatusCode::OK, &found))
    }

    /// A page of the records of a collection, newest first unless `reverse` says otherwise.
    fn list(&self, call: &Call<'_>, account: &Account) -> Value {
        let collection = call.parameter("collection");
        let limit = call.parameter("limit").parse().unwrap_or(50).clamp(1, MAX_PAGE);
        let (cursor, is_reverse) = (call.parameter("cursor"), call.parameter("reverse") == "true");
        let records = self.repos.get(&account.did).into_iter().flat_map(|repo| &repo.records);
        let mut rows: Vec<_> = records
            .filter(|((of, rkey), _)| {
                of == collection
                    && (cursor.is_empty() || (rkey.as_str() > cursor) == is_reverse && rkey != cursor)
            })
            .collect();
        if !is_reverse {
            rows.reverse();
        }
        let is_last = rows.len() <= limit;
        rows.truncate(limit);
        let mut page = json!({ "records": rows.iter().map(|((_, rkey), Stored { cid, record })| {
            json!({ "uri": format!("at://{}/{collection}/{rkey}", account.did), "cid": cid, "value": record })
        }).collect::<Vec<_>>() });
        if let Some(((_, rkey), _)) = rows.last().filter(|_| !is_last) {
            page["cursor"] = rkey.as_str().into();
        }
        page
    }

    fn upload(&mut self, call: &Call<'_>) -> FetchedResponse {
        let (cid, size) = (blob_cid(call.body).to_string(), call.body.len());
        if self.blob_bytes + size > MAX_BLOB_BYTES {
            let text = "the blobs of the stand-in network are too large together: begin again";
            return refusal(StatusCode::INSUFFICIENT_STORAGE, "Full", text);
        }
        let kind = call.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or("application/octet-stream").to_owned();
        let blob = json!({ "$type": "blob", "ref": { "$link": cid }, "mimeType": kind, "size": size });
        if self.blobs.insert(cid, (kind, call.body.clone())).is_none() {
            self.blob_bytes += size;
        }
        json_answer(StatusCode::OK, &json!({ "blob": blob }))
    }
}

/// A commit as Jetstream sends it, without its time. `record`: its CID and value; `None` for a deletion.
fn event(did: &str, rev: &str, (collection, rkey): (&str, &str), record: Option<(&str, &Value)>) -> Value {
    let mut commit = json!({ "rev": rev, "operation": "delete", "collection": collection, "rkey": rkey });
    if let Some((cid, record)) = record {
        commit["operation"] = "update".into();
        commit["cid"] = cid.into();
        commit["record"] = record.clone();
    }
    json!({ "did": did, "kind": "commit", "commit": commit })
}

/// A session of an account without a password.
fn create_session(call: &Call<'_>, accounts: &Accounts) -> FetchedResponse {
    let input: Value = serde_json::from_slice(call.body).unwrap_or_default();
    match accounts.find(input["identifier"].as_str().unwrap_or_default()) {
        Some(account) => session(account),
        None => refusal(
            StatusCode::UNAUTHORIZED,
            "AuthenticationRequired",
            "identifier must be the handle or the DID of an account in seed/accounts.json",
        ),
    }
}

fn session(account: &Account) -> FetchedResponse {
    let Account { did, handle } = account;
    let token = access_token(did);
    let session =
        json!({ "did": did, "handle": handle, "active": true, "accessJwt": token, "refreshJwt": token });
    json_answer(StatusCode::OK, &session)
}

fn service_token(call: &Call<'_>, account: &Account) -> FetchedResponse {
    let Some(key) = signing_key(&account.did) else {
        return refusal(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "the account has no key");
    };
    let now = call.now.as_seconds();
    let mut claims = json!({
        "iss": account.did, "aud": call.parameter("aud"), "iat": now, "exp": now + SERVICE_TOKEN_SECONDS,
        "jti": Random::system().hex(16),
    });
    if !call.parameter("lxm").is_empty() {
        claims["lxm"] = call.parameter("lxm").into();
    }
    json_answer(StatusCode::OK, &json!({ "token": jws::sign(&key, &claims) }))
}
