//! The network of `belvedere dev`: a PLC directory, one PDS with its authorization server, a relay and a stream, in this process.
//! It answers the requests of the application without a connection, and browsers and apps on a port of this machine.

mod accounts;
mod answers;
mod authorization;
mod events;
mod listener;
mod pds;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use url::Url;

use belvedere_base::clock::Clock;
use belvedere_protocol::atproto::RecordUri;
use belvedere_web::http::websocket::{Gone, Socket};
use belvedere_web::net::{FetchedResponse, NetError, StandIn, StandInRequest};

use accounts::Accounts;
pub(super) use accounts::{Account, did_of};
use answers::{answer, json_answer, page, refusal};
use authorization::Authorization;
use events::Events;
pub(super) use listener::serve;
use pds::{Call, Pds};

/// The network. It exists as long as the process.
#[derive(Debug)]
pub(super) struct Network {
    origin: String,
    clock: Clock,
    state: Mutex<State>,
    events: Events,
}

#[derive(Debug, Default)]
struct State {
    accounts: Accounts,
    authorization: Authorization,
    pds: Pds,
    /// The records of the last seeds, by URI.
    seeded: BTreeMap<String, Value>,
}

impl Network {
    /// `origin`: the address at which browsers reach it.
    pub(super) fn new(origin: String, clock: Clock) -> Self {
        Self { origin, clock, state: Mutex::default(), events: Events::default() }
    }

    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, events: Vec<Value>) {
        for event in events {
            self.events.push(event, self.clock.now());
        }
    }

    /// Sends the events of the stream from a cursor on.
    async fn feed(&self, socket: &mut Socket, cursor: Option<i64>) -> Gone {
        self.events.feed(socket, cursor).await
    }

    /// Adds accounts, or renames them.
    pub(super) fn put_accounts(&self, accounts: &[Account]) {
        for account in accounts {
            if self.state().accounts.put(account.clone()) {
                let Account { did, handle } = account;
                let identity = json!({ "did": did, "seq": 0, "handle": handle });
                self.push(vec![json!({ "did": did, "kind": "identity", "identity": identity })]);
            }
        }
    }

    /// Makes the seeded records equal to these, by URI: writes those that have changed since the last call, and deletes those that are
    /// gone, unless the seeds are incomplete. Records that apps have changed meanwhile stay as they are. Returns how many were written,
    /// and the problems of the others.
    pub(super) fn seed(
        &self,
        mut records: BTreeMap<String, Value>,
        is_complete: bool,
    ) -> (usize, Vec<String>) {
        let (mut changed, mut problems) = (0, Vec::new());
        let before = std::mem::take(&mut self.state().seeded);
        if !is_complete {
            for (uri, record) in &before {
                records.entry(uri.clone()).or_insert_with(|| record.clone());
            }
        }
        let gone = before.keys().filter(|uri| !records.contains_key(*uri)).map(|uri| (uri, None));
        let new = records.iter().filter(|(uri, record)| before.get(*uri) != Some(*record));
        for (uri, record) in gone.chain(new.map(|(uri, record)| (uri, Some(record)))) {
            match self.put(uri, record) {
                Ok(()) => changed += 1,
                Err(problem) => problems.push(format!("{uri}: {problem}")),
            }
        }
        self.state().seeded = records;
        (changed, problems)
    }

    /// Writes a record, or deletes it.
    fn put(&self, uri: &str, record: Option<&Value>) -> Result<(), String> {
        let RecordUri { did, collection, rkey } = RecordUri::parse(uri).map_err(|error| error.to_string())?;
        let mut body =
            json!({ "repo": did.as_str(), "collection": collection.as_str(), "rkey": rkey.as_str() });
        let method = if let Some(record) = record {
            body["record"] = record.clone();
            "com.atproto.repo.putRecord"
        } else {
            "com.atproto.repo.deleteRecord"
        };
        let (answer, events) =
            self.state().pds.write(method, body.to_string().as_bytes(), None, self.clock.now());
        self.push(events);
        if answer.status.is_success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&answer.body).into_owned())
        }
    }

    /// Sends all records again, for a server that follows more collections than before.
    pub(super) fn send_again(&self) {
        let events = self.state().pds.events();
        self.push(events);
    }

    /// Answers a request to the network.
    fn answer(&self, request: &StandInRequest) -> FetchedResponse {
        let StandInRequest { url, headers, body, .. } = request;
        let body = body.clone().unwrap_or_default();
        let body = &body;
        if let Some(metadata) = authorization::metadata(url.path(), &self.origin) {
            return metadata;
        }
        if let Some(nsid) = url.path().strip_prefix("/xrpc/") {
            return self.call(nsid, url, headers, body);
        }
        let mut state = self.state();
        let State { accounts, authorization, .. } = &mut *state;
        if let Some(answer) = authorization.answer(url, body, accounts, &self.origin) {
            return answer;
        }
        if url.path() == "/" {
            return page("The network of belvedere dev", &list(accounts));
        }
        let did = url.path().trim_start_matches('/');
        match accounts.document(did, &self.origin) {
            Some(document) => json_answer(StatusCode::OK, &document),
            None => {
                refusal(StatusCode::NOT_FOUND, "NotFound", "the stand-in network has no such DID or path")
            }
        }
    }

    fn call(&self, nsid: &str, url: &Url, headers: &HeaderMap, body: &Bytes) -> FetchedResponse {
        let query = url.query_pairs().into_owned().collect();
        let call = Call { nsid, query, headers, body, now: self.clock.now() };
        let mut state = self.state();
        let State { accounts, pds, .. } = &mut *state;
        let (answer, events) = pds.answer(&call, accounts);
        drop(state);
        self.push(events);
        answer
    }
}

/// The accounts as a list in HTML. Handles and DIDs have no character of HTML.
fn list(accounts: &Accounts) -> String {
    let mut list = String::from("<ul>");
    for Account { did, handle } in accounts.all() {
        let _ = write!(list, "<li><b>{handle}</b><br><code>{did}</code></li>");
    }
    list + "</ul>"
}

impl StandIn for Network {
    fn answer(&self, request: StandInRequest) -> Result<FetchedResponse, NetError> {
        let url = &request.url;
        if url.origin().ascii_serialization() == self.origin {
            return Ok(Self::answer(self, &request));
        }
        if url.path() == "/.well-known/atproto-did" {
            let state = self.state();
            let account = url.host_str().and_then(|handle| state.accounts.find(handle));
            let (status, did) =
                account.map_or((StatusCode::NOT_FOUND, ""), |account| (StatusCode::OK, &account.did));
            return Ok(answer(status, "text/plain", Bytes::copy_from_slice(did.as_bytes())));
        }
        let method = &request.method;
        Err(NetError::Transport(format!("there is no network under belvedere dev: {method} {url}")))
    }

    fn dns_txt(&self, name: &str) -> Result<Vec<String>, NetError> {
        let Some(handle) = name.strip_prefix("_atproto.") else { return Ok(Vec::new()) };
        let state = self.state();
        Ok(state.accounts.find(handle).map(|account| format!("did={}", account.did)).into_iter().collect())
    }
}
