//! A small network of repos: PDSs, and one server that is both the relay and the directory of DIDs. Tests change the
//! repos while it runs, and choose which requests fail and how.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Request;
use hyper::body::Incoming;
use serde_json::{Value, json};
use url::form_urlencoded;

use crate::cars::{self, Records};
pub use crate::faults::Fault;
use crate::frames::{cid_of, tid};
use crate::repo_servers::serve;

/// The time of the first rev, in microseconds.
const FIRST_REV: u64 = 1_700_000_000_000_000;

pub(crate) type Choose = Box<dyn FnMut(&Query) -> Option<Fault> + Send>;

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

/// The network as it is now.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) repos: BTreeMap<String, Repo>,
    pub(crate) documents: HashMap<String, Value>,
    pub(crate) faults: HashMap<Site, Choose>,
    pub(crate) queries: Vec<(Site, Query)>,
    /// Bytes of the bodies that were sent.
    pub(crate) sent: HashMap<Site, u64>,
    /// Whether PDSs answer `getRepo` and `describeRepo`.
    pub(crate) has_cars: bool,
    pub(crate) last_rev: u64,
    pub(crate) repos_per_page: usize,
}

#[derive(Default)]
pub(crate) struct Repo {
    pub(crate) pds: usize,
    pub(crate) rev: u64,
    /// The error that its PDS answers with.
    pub(crate) error: Option<&'static str>,
    /// The relay lists it no more.
    pub(crate) is_unlisted: bool,
    pub(crate) records: Records,
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

impl Query {
    /// Whether it asks for a page of a collection, and not for the record with the lowest key.
    pub fn is_page(&self) -> bool {
        self.method == "com.atproto.repo.listRecords" && !self.reverse
    }

    pub(crate) fn of(request: &Request<Incoming>) -> Self {
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
