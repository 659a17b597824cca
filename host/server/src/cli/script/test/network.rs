//! Answers the requests of a case in place of the network: what the case has given, DID documents and handles of its accounts, and
//! the writes to their PDS. Other requests have no answer and make the case fail.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use url::Url;

use super::super::super::stand_in_pds as pds;
use super::seen::Seen;
use belvedere_base::clock::Clock;
use belvedere_protocol::atproto::Did;
use belvedere_web::net::{FetchedResponse, NetError, StandIn, StandInRequest};

/// Bytes of all answers that a case may give, and their number: its own process keeps them.
const MAX_BYTES: usize = 32 << 20;
const MAX_ANSWERS: usize = 1_000;

/// An answer that a case gives.
#[derive(Clone, Debug)]
pub(super) enum GivenAnswer {
    Response(FetchedResponse),
    /// The connection fails with this text.
    Failure(String),
}

/// An account of the case.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) handle: Option<String>,
    /// The origin of its PDS.
    pub(super) pds: String,
}

/// The network of one case.
#[derive(Debug)]
pub(super) struct Network {
    seen: Arc<Seen>,
    clock: Clock,
    /// The PLC directory of the configuration.
    directory: Url,
    given: Mutex<Given>,
}

#[derive(Debug, Default)]
struct Given {
    accounts: HashMap<String, Account>,
    /// By method and URL. The last answer stays, those before it are given once each.
    http: HashMap<(Method, String), VecDeque<GivenAnswer>>,
    /// By the method of the PDS.
    pds: HashMap<String, VecDeque<GivenAnswer>>,
    answers: usize,
    bytes: usize,
    /// Writes that the PDS has accepted.
    writes: u64,
}

/// The case gives more than it may.
#[derive(Debug, thiserror::Error)]
#[error("a case gives at most {MAX_ANSWERS} answers and accounts of {MAX_BYTES} bytes together")]
pub(super) struct TooMuch;

impl Given {
    fn count(&mut self, bytes: usize) -> Result<(), TooMuch> {
        (self.answers, self.bytes) = (self.answers + 1, self.bytes + bytes);
        if self.answers > MAX_ANSWERS || self.bytes > MAX_BYTES { Err(TooMuch) } else { Ok(()) }
    }
}

impl Network {
    pub(super) fn new(seen: Arc<Seen>, clock: Clock, directory: Url) -> Self {
        Self { seen, clock, directory, given: Mutex::default() }
    }

    fn given(&self) -> MutexGuard<'_, Given> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_account(&self, did: &Did, account: Account) -> Result<(), TooMuch> {
        let mut given = self.given();
        given.count(did.as_str().len())?;
        given.accounts.insert(did.as_str().to_owned(), account);
        Ok(())
    }

    pub(super) fn account(&self, did: &Did) -> Option<Account> {
        self.given().accounts.get(did.as_str()).cloned()
    }

    pub(super) fn add_http(&self, method: Method, url: &Url, answer: GivenAnswer) -> Result<(), TooMuch> {
        let mut given = self.given();
        given.count(answer.bytes() + url.as_str().len())?;
        given.http.entry((method, url.to_string())).or_default().push_back(answer);
        Ok(())
    }

    pub(super) fn add_pds(&self, nsid: &str, answer: GivenAnswer) -> Result<(), TooMuch> {
        let mut given = self.given();
        given.count(answer.bytes() + nsid.len())?;
        given.pds.entry(nsid.to_owned()).or_default().push_back(answer);
        Ok(())
    }

    /// The document of an account, if the URL is the place of one.
    fn document(&self, url: &Url) -> Option<FetchedResponse> {
        let of_directory = url.origin() == self.directory.origin();
        let did = match url.path() {
            "/.well-known/did.json" => format!("did:web:{}", url.host_str()?),
            path if of_directory => path.trim_start_matches('/').to_owned(),
            _ => return None,
        };
        let given = self.given();
        let Some(account) = given.accounts.get(&did) else {
            return Some(answer(StatusCode::NOT_FOUND, &json!({ "message": "DID not registered" })));
        };
        let handles: Vec<String> = account.handle.iter().map(|handle| format!("at://{handle}")).collect();
        let document = json!({
            "id": did,
            "alsoKnownAs": handles,
            "service": [{
                "id": "#atproto_pds",
                "type": "AtprotoPersonalDataServer",
                "serviceEndpoint": account.pds,
            }],
        });
        Some(answer(StatusCode::OK, &document))
    }

    /// The answer of the PDS, if the URL is that of a method of it.
    fn of_pds(&self, url: &Url, body: Option<&Bytes>) -> Option<Result<FetchedResponse, NetError>> {
        let nsid = url.as_str().strip_prefix(pds::ORIGIN)?.strip_prefix("/xrpc/")?;
        let nsid = nsid.split('?').next().unwrap_or(nsid);
        let mut given = self.given();
        if let Some(answers) = given.pds.get_mut(nsid) {
            return next(answers).map(GivenAnswer::into_result);
        }
        given.writes += 1;
        let number = given.writes;
        drop(given);
        let done = pds::answer(nsid, body.map_or(&[][..], |body| &body[..]), self.clock.now(), number)?;
        for write in done.writes {
            let bytes = body.map_or(0, Bytes::len);
            self.seen.write(write, bytes);
        }
        Some(Ok(answer(done.status, &done.body)))
    }
}

impl StandIn for Network {
    fn answer(&self, request: StandInRequest) -> Result<FetchedResponse, NetError> {
        let StandInRequest { method, url, headers, body } = request;
        let key = (method, url.to_string());
        let given = self.given().http.get_mut(&key).and_then(next);
        let (method, _) = key;
        if let Some(given) = given {
            self.note(&method, &url, &headers, body.as_ref());
            return given.into_result();
        }
        if let Some(document) = self.document(&url) {
            return Ok(document);
        }
        if let Some(answer) = self.of_pds(&url, body.as_ref()) {
            return answer;
        }
        if url.path() == "/.well-known/atproto-did" {
            return Ok(answer(StatusCode::NOT_FOUND, &Value::Null));
        }
        self.note(&method, &url, &headers, body.as_ref());
        let shown = if method == Method::GET { url.to_string() } else { format!("{method} {url}") };
        let remedy = match url.as_str().strip_prefix(pds::ORIGIN) {
            Some(path) => {
                let nsid = path.trim_start_matches("/xrpc/").split('?').next().unwrap_or_default();
                format!("given.pds(\"{nsid}\", {{ status = 200, body = {{}} }})")
            }
            None => format!("given.http(\"{shown}\", {{ status = 200, body = {{}} }})"),
        };
        let text = format!("{shown} has no answer in this test: add {remedy}");
        self.seen.unanswered(text.clone());
        Err(NetError::Transport(text))
    }

    fn dns_txt(&self, name: &str) -> Result<Vec<String>, NetError> {
        let Some(handle) = name.strip_prefix("_atproto.") else { return Ok(Vec::new()) };
        let given = self.given();
        let owner = given.accounts.iter().find(|(_, account)| account.handle.as_deref() == Some(handle));
        Ok(owner.map(|(did, _)| format!("did={did}")).into_iter().collect())
    }
}

impl Network {
    /// Adds a request to those that the case can look at.
    fn note(&self, method: &Method, url: &Url, headers: &HeaderMap, body: Option<&Bytes>) {
        let texts = headers.iter().map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned().into())
        });
        let headers: serde_json::Map<String, Value> = texts.collect();
        let body = body.map(|body| String::from_utf8_lossy(body).into_owned());
        let bytes = url.as_str().len() + body.as_ref().map_or(0, String::len);
        let request =
            json!({ "method": method.as_str(), "url": url.as_str(), "headers": headers, "body": body });
        self.seen.request(request, bytes);
    }
}

impl GivenAnswer {
    fn bytes(&self) -> usize {
        match self {
            Self::Response(response) => response.body.len(),
            Self::Failure(text) => text.len(),
        }
    }

    fn into_result(self) -> Result<FetchedResponse, NetError> {
        match self {
            Self::Response(response) => Ok(response),
            Self::Failure(text) => Err(NetError::Transport(text)),
        }
    }
}

/// The next of the answers to one request.
fn next(answers: &mut VecDeque<GivenAnswer>) -> Option<GivenAnswer> {
    if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() }
}

fn answer(status: StatusCode, body: &Value) -> FetchedResponse {
    FetchedResponse { status, headers: HeaderMap::new(), body: body.to_string().into() }
}
