//! The servers of a [network of repos](crate::repos::RepoNetwork): what they answer.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::cars;
use crate::faults::Fault;
use crate::frames::{cid_of, synthetic_did, tid};
use crate::pages::page;
use crate::repos::{Query, Repo, Site, State, uri};
use crate::responses::{Body, broken, dripping, gigabyte, page_of, respond};

/// Starts one of them on a free port.
pub(crate) async fn serve(site: Site, state: Arc<Mutex<State>>) -> SocketAddr {
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
        if let Some(Fault::InventsRepos(count)) = fault {
            let first: usize = requested.parse().unwrap_or(0);
            let entries: Vec<_> =
                (first..first + count).map(|n| json!({ "did": synthetic_did(500_000 + n) })).collect();
            return (200, json!({ "repos": entries, "cursor": (first + count).to_string() }));
        }
        let after = requested.trim_end_matches('~');
        let has = |repo: &Repo| {
            // Relays do the same: a repo without records of a collection is not listed for it.
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
            "com.atproto.repo.getRecord" if matches!(fault, Some(Fault::WrongRecord)) => {
                let (uri, record) =
                    (uri(&query.did, &query.collection, "another"), json!({ "another": "record" }));
                json_body((200, json!({ "uri": uri, "cid": cid_of(&record), "value": record })))
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
