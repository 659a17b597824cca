//! A small network of repos: PDSs, and one server that is both the relay and the directory of DIDs. Tests change the
//! repos while it runs, and choose which requests fail and how.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::form_urlencoded;

use crate::cars::{self, Records};
pub use crate::faults::Fault;
use crate::frames::{cid_of, tid};
use crate::pages::page;
use crate::responses::{Body, broken, dripping, gigabyte, page_of, respond};

/// The time of the first rev, in microseconds.
const FIRST_REV: u64 = 1_700_000_000_000_000;

type Choose = Box<dyn FnMut(&Query) -> Option<Fault> + Send>;

/// The server of the network that a request went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Site {
    /// The relay and the directory.
    Relay,
    Pds(usize),
}

/// A request to a server of the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// The last part of the path: an NSID, or a DID at the directory.
    pub method: String,
    /// `repo` or `did`.
    pub did: String,
    pub collection: String,
    pub rkey: String,
    pub cursor: Option<String>,
    pub limit: usize,
    /// The lowest record keys first.
    pub reverse: bool,
}

/// The running network. Cheap to clone.
#[derive(Clone)]
pub struct RepoNetwork {
    state: Arc<Mutex<State>>,
    relay: SocketAddr,
    pdss: Arc<[SocketAddr]>,
}

impl fmt::Debug for RepoNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RepoNetwork")
            .field("relay", &self.relay)
            .field("pdss", &self.pdss)
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    repos: BTreeMap<String, Repo>,
    documents: HashMap<String, Value>,
    faults: HashMap<Site, Choose>,
    queries: Vec<(Site, Query)>,
    /// Bytes of the bodies that were sent.
    sent: HashMap<Site, u64>,
    /// Whether PDSs answer `getRepo` and `describeRepo`.
    has_cars: bool,
    last_rev: u64,
    repos_per_page: usize,
}

#[derive(Default)]
struct Repo {
    pds: usize,
    rev: u64,
    /// The error that its PDS answers with.
    error: Option<&'static str>,
    /// The relay lists it no more.
    is_unlisted: bool,
    records: Records,
}

impl RepoNetwork {
    /// Starts the relay and `count` PDSs.
    pub async fn start(count: usize) -> Self {
        let state = Arc::new(Mutex::new(State { repos_per_page: 1_000, ..State::default() }));
        let relay = serve(Site::Relay, Arc::clone(&state)).await;
        let mut pdss = Vec::new();
        for n in 0..count {
            pdss.push(serve(Site::Pds(n), Arc::clone(&state)).await);
        }
        Self { state, relay, pdss: pdss.into() }
    }

    /// The URL of the relay and of the directory.
    pub fn url(&self) -> String {
        format!("http://{}", self.relay)
    }

    pub fn pds_url(&self, pds: usize) -> String {
        format!("http://{}", self.pdss[pds])
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates an account, or moves it with its records.
    pub fn account(&self, did: &str, pds: usize) {
        let url = self.pds_url(pds);
        self.document(did, document(did, &url));
        self.state().repos.entry(did.to_owned()).or_default().pds = pds;
    }

    /// Sets the document of a DID; null: the DID was ended for good.
    pub fn document(&self, did: &str, document: Value) {
        self.state().documents.insert(did.to_owned(), document);
    }

    /// Makes the relay forget a repo.
    pub fn unlist(&self, did: &str) {
        self.state().repos.get_mut(did).expect("the account exists").is_unlisted = true;
    }

    /// Sets the time of the next commit, in microseconds. Later ones follow it.
    pub fn set_time(&self, micros: i64) {
        self.state().last_rev = micros.unsigned_abs() - FIRST_REV;
    }

    /// Creates or updates a record. Returns the rev.
    pub fn put(&self, did: &str, collection: &str, rkey: &str, record: Value) -> String {
        self.commit(did, |repo| {
            repo.records.entry(collection.to_owned()).or_default().insert(rkey.to_owned(), record);
        })
    }

    /// Creates `count` records with the keys `0000`, `0001` and so on.
    pub fn fill(&self, did: &str, collection: &str, count: usize) {
        for n in 0..count {
            self.put(did, collection, &format!("{n:04}"), json!({ "$type": collection, "n": n }));
        }
    }

    /// Deletes a record. Returns the rev.
    pub fn delete(&self, did: &str, collection: &str, rkey: &str) -> String {
        self.commit(did, |repo| {
            let records = repo.records.get_mut(collection).expect("the collection exists");
            records.remove(rkey).expect("the record exists");
        })
    }

    fn commit(&self, did: &str, change: impl FnOnce(&mut Repo)) -> String {
        let mut state = self.state();
        state.last_rev += 1;
        let rev = FIRST_REV + state.last_rev;
        let repo = state.repos.get_mut(did).expect("the account exists");
        change(repo);
        repo.rev = rev;
        tid(rev, 0)
    }

    /// Gives a repo a later rev without a commit, as when an account is created again. Later commits have even later ones.
    pub fn advance_rev(&self, did: &str, micros: u64) {
        let mut state = self.state();
        state.last_rev = state.last_rev.max(micros.saturating_sub(FIRST_REV));
        state.repos.get_mut(did).expect("the account exists").rev = micros;
    }

    /// Makes the PDS of an account answer with an error such as `RepoDeactivated`, or no longer.
    pub fn set_error(&self, did: &str, error: Option<&'static str>) {
        self.state().repos.get_mut(did).expect("the account exists").error = error;
    }

    /// Chooses which requests to a server fail; replaces an earlier choice.
    pub fn faults(&self, site: Site, choose: impl FnMut(&Query) -> Option<Fault> + Send + 'static) {
        self.state().faults.insert(site, Box::new(choose));
    }

    /// Makes the first `count` requests to a server fail.
    pub fn fail_first(&self, site: Site, count: usize, fault: Fault) {
        let mut left = count;
        self.faults(site, move |_| {
            left = left.checked_sub(1)?;
            Some(fault.clone())
        });
    }

    /// Repairs all servers.
    pub fn repair(&self) {
        self.state().faults.clear();
    }

    /// Sets how many repos the relay lists on a page.
    pub fn set_repos_per_page(&self, count: usize) {
        self.state().repos_per_page = count;
    }

    /// Lets PDSs serve repos as CARs, and describe them.
    pub fn serve_cars(&self) {
        self.state().has_cars = true;
    }

    /// Bytes of all bodies that the PDSs have sent.
    pub fn bytes_of_pdss(&self) -> u64 {
        self.state().sent.iter().filter(|(site, _)| **site != Site::Relay).map(|(_, bytes)| bytes).sum()
    }

    /// The requests so far to a server, in order.
    pub fn queries(&self, site: Site) -> Vec<Query> {
        self.state().queries.iter().filter(|(at, _)| *at == site).map(|(_, query)| query.clone()).collect()
    }

    /// Whether a repo has a record.
    pub fn has(&self, did: &str, collection: &str, rkey: &str) -> bool {
        let state = self.state();
        let records = state.repos.get(did).and_then(|repo| repo.records.get(collection));
        records.is_some_and(|records| records.contains_key(rkey))
    }

    /// The records of a collection: their URIs and CIDs.
    pub fn records(&self, collection: &str) -> BTreeMap<String, String> {
        let state = self.state();
        let of = |(did, repo): (&String, &Repo)| {
            let records = repo.records.get(collection).into_iter().flatten();
            let named = records.map(|(rkey, record)| (uri(did, collection, rkey), cid_of(record)));
            named.collect::<Vec<_>>()
        };
        state.repos.iter().flat_map(of).collect()
    }
}

/// The DID document of an account at a PDS.
pub fn document(did: &str, pds: &str) -> Value {
    let method = json!({ "id": format!("{did}#atproto"), "type": "Multikey", "controller": did,
        "publicKeyMultibase": cars::multikey(did) });
    json!({ "id": did, "verificationMethod": [method], "service": [
        { "id": "#atproto_pds", "type": "AtprotoPersonalDataServer", "serviceEndpoint": pds }] })
}

pub(crate) fn uri(did: &str, collection: &str, rkey: &str) -> String {
    format!("at://{did}/{collection}/{rkey}")
}

async fn serve(site: Site, state: Arc<Mutex<State>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let state = Arc::clone(&state);
            let service = service_fn(move |request: Request<Incoming>| {
                let state = Arc::clone(&state);
                async move { Ok::<_, Infallible>(answer(site, &state, &Query::of(&request)).await) }
            });
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(http.serve_connection(TokioIo::new(connection), service));
        }
    });
    address
}

impl Query {
    /// Whether it asks for a page of a collection, and not for the record with the lowest key.
    pub fn is_page(&self) -> bool {
        self.method == "com.atproto.repo.listRecords" && !self.reverse
    }

    fn of(request: &Request<Incoming>) -> Self {
        let path = request.uri().path();
        let method = path.rsplit('/').next().unwrap_or_default().to_owned();
        let mut query = Self { method, ..Self::default() };
        for (name, value) in form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()) {
            match &*name {
                "repo" | "did" => query.did = value.into_owned(),
                "collection" => query.collection = value.into_owned(),
                "rkey" => query.rkey = value.into_owned(),
                "cursor" => query.cursor = Some(value.into_owned()),
                "reverse" => query.reverse = value == "true",
                "limit" => query.limit = value.parse().unwrap_or(0),
                _ => {}
            }
        }
        query
    }
}

async fn answer(site: Site, state: &Arc<Mutex<State>>, query: &Query) -> Response<Body> {
    let locked = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let (fault, (status, body)) = {
        let mut state = locked();
        state.queries.push((site, query.clone()));
        let fault = state.faults.get_mut(&site).and_then(|choose| choose(query));
        let right = match site {
            Site::Relay => json_body(state.relay(query, fault.as_ref())),
            Site::Pds(pds) => state.pds(pds, query, fault.as_ref()),
        };
        (fault, right)
    };
    let (status, headers, body) = match fault {
        Some(Fault::Status(status, headers, body)) => (status, headers, body.into()),
        Some(Fault::Html) => (200, Vec::new(), "<html><body>down for maintenance</body></html>".into()),
        Some(Fault::Redirect(to)) => (307, vec![("location", to)], Bytes::new()),
        Some(Fault::Text(text)) => (200, Vec::new(), text.into()),
        Some(Fault::Records(values)) => (200, Vec::new(), page_of(query, &values).into()),
        Some(Fault::Reset) => return broken(&body),
        Some(Fault::Drip) => return dripping(),
        Some(Fault::Gigabyte) => {
            let state = Arc::clone(state);
            return gigabyte(move |sent| {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                *state.sent.entry(site).or_default() += sent as u64;
            });
        }
        Some(Fault::Until(mut open)) => {
            // Fails when the test has ended.
            let _ = open.wait_for(|open| *open).await;
            (status, Vec::new(), body)
        }
        _ => (status, Vec::new(), body),
    };
    *locked().sent.entry(site).or_default() += body.len() as u64;
    respond(status, &headers, body)
}

fn json_body((status, body): (u16, Value)) -> (u16, Bytes) {
    (status, body.to_string().into())
}

fn refuse(error: &str) -> (u16, Value) {
    (400, json!({ "error": error, "message": "refused by the stand-in" }))
}

impl State {
    fn relay(&self, query: &Query, fault: Option<&Fault>) -> (u16, Value) {
        let is_of_all = query.method == "com.atproto.sync.listRepos";
        if !is_of_all && query.method != "com.atproto.sync.listReposByCollection" {
            return match self.documents.get(&query.method) {
                Some(Value::Null) => (410, json!({ "message": "DID not available" })),
                Some(document) => (200, document.clone()),
                None => (404, json!({ "message": "DID not registered" })),
            };
        }
        let requested = query.cursor.as_deref().unwrap_or_default();
        if matches!(fault, Some(Fault::EmptyPageWithCursor)) && !requested.ends_with('~') {
            return (200, json!({ "repos": [], "cursor": format!("{requested}~") }));
        }
        let after = requested.trim_end_matches('~');
        let has = |repo: &Repo| {
            // As relays do: a repo without records of a collection is not listed for it.
            let records = repo.records.get(&query.collection);
            (is_of_all || records.is_some_and(|records| !records.is_empty())) && !repo.is_unlisted
        };
        let dids = self.repos.iter().filter(|(did, repo)| has(repo) && did.as_str() > after);
        let page: Vec<_> = dids.map(|(did, _)| did).take(self.repos_per_page).collect();
        let entry = |did: &&String| {
            let repo = &self.repos[*did];
            let mut entry = json!({ "did": did });
            if is_of_all {
                entry["head"] = cid_of(&json!({})).into();
                entry["rev"] = tid(repo.rev, 0).into();
                entry["active"] = repo.error.is_none().into();
            }
            entry
        };
        let mut entries: Vec<_> = page.iter().map(entry).collect();
        if matches!(fault, Some(Fault::EntryWithoutDid)) {
            entries.splice(0..0, [json!({ "head": "bafy" }), json!({ "did": "nope" })]);
        }
        let mut answer = json!({ "repos": entries });
        if page.len() == self.repos_per_page {
            answer["cursor"] = page.last().map(|did| did.as_str()).into();
        }
        (200, answer)
    }

    fn pds(&self, pds: usize, query: &Query, fault: Option<&Fault>) -> (u16, Bytes) {
        let repo = match self.repos.get(&query.did).filter(|repo| repo.pds == pds) {
            None => return json_body(refuse("RepoNotFound")),
            Some(Repo { error: Some(error), .. }) => return json_body(refuse(error)),
            Some(repo) => repo,
        };
        match query.method.as_str() {
            "com.atproto.sync.getLatestCommit" => {
                json_body((200, json!({ "cid": cid_of(&json!({})), "rev": tid(repo.rev, 0) })))
            }
            "com.atproto.repo.getRecord" => {
                let record = repo.records.get(&query.collection).and_then(|records| records.get(&query.rkey));
                json_body(record.map_or_else(
                    || refuse("RecordNotFound"),
                    |record| {
                        let uri = uri(&query.did, &query.collection, &query.rkey);
                        (200, json!({ "uri": uri, "cid": cid_of(record), "value": record }))
                    },
                ))
            }
            "com.atproto.repo.listRecords" => json_body((200, page(&repo.records, query, fault))),
            "com.atproto.repo.describeRepo" if self.has_cars => {
                let present = repo.records.iter().filter(|(_, records)| !records.is_empty());
                let names: Vec<_> = present.map(|(collection, _)| collection).collect();
                json_body((200, json!({ "did": query.did, "collections": names })))
            }
            "com.atproto.sync.getRepo" if self.has_cars => {
                let fault = if let Some(Fault::Car(fault)) = fault { Some(*fault) } else { None };
                (200, cars::car(&query.did, &tid(repo.rev, 0), &repo.records, fault).into())
            }
            _ => json_body((
                501,
                json!({ "error": "MethodNotImplemented", "message": "Method Not Implemented" }),
            )),
        }
    }
}
