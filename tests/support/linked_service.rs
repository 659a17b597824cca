//! A service with accounts: OAuth 2 with PKCE, refresh tokens that are valid once, and lists of items. The plugin `probe`
//! (`tests/plugins/probe`) links its accounts.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use belvedere_protocol::crypto::sha256;
use belvedere_standins::upstream::{ReceivedRequest, Upstream, respond};
use bytes::Bytes;
use http::Response;
use serde_json::{Value, json};

/// Makes the answer for a cursor.
type Lists = Arc<dyn Fn(&str) -> Value + Send + Sync>;

/// The running service.
pub struct LinkedService {
    upstream: Upstream,
    state: Arc<Mutex<State>>,
}

struct State {
    /// Code challenge, redirect URI and account, by code.
    codes: HashMap<String, (String, String, String)>,
    /// Accounts by valid access token.
    access: HashMap<String, String>,
    /// Accounts by valid refresh token.
    refresh: HashMap<String, String>,
    spent: HashSet<String>,
    count: u32,
    refreshes: u32,
    reused: u32,
    expires_in: Option<u32>,
    lists: Lists,
    /// Statuses of the next answers, by path.
    failures: HashMap<String, Vec<u16>>,
}

impl LinkedService {
    pub async fn start() -> Self {
        let state = Arc::new(Mutex::new(State {
            codes: HashMap::new(),
            access: HashMap::new(),
            refresh: HashMap::new(),
            spent: HashSet::new(),
            count: 0,
            refreshes: 0,
            reused: 0,
            expires_in: None,
            lists: Arc::new(|_| json!({ "items": [] })),
            failures: HashMap::new(),
        }));
        let known = Arc::clone(&state);
        let upstream =
            Upstream::start(move |request| known.lock().expect("no test panics here").answer(request)).await;
        Self { upstream, state }
    }

    /// The address for `PLUGIN_PROBE_PROXY_URL`. A name, because manifests name no addresses.
    pub fn url(&self) -> String {
        format!("http://localhost:{}", self.upstream.address.port())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics here")
    }

    /// Acts as a user who follows the redirect to the service and signs in. Returns the address to which the service
    /// redirects back.
    pub fn sign_in(&self, authorize_url: &str, account: &str) -> String {
        let url = url::Url::parse(authorize_url).expect("a URL");
        assert_eq!(url.path(), "/probe.example/authorize");
        let query: HashMap<_, _> = url.query_pairs().into_owned().collect();
        let mut state = self.state();
        state.count += 1;
        let code = format!("code-{}", state.count);
        let bound = (query["code_challenge"].clone(), query["redirect_uri"].clone(), account.to_owned());
        state.codes.insert(code.clone(), bound);
        let mut back = url::Url::parse(&query["redirect_uri"]).expect("a URL");
        back.query_pairs_mut().append_pair("state", &query["state"]).append_pair("code", &code);
        back.into()
    }

    /// New tokens expire after this time.
    pub fn expire_in(&self, seconds: Option<u32>) {
        self.state().expires_in = seconds;
    }

    /// Lists these items: `{items: [{collection, value, key?, sign?}], next?}` for a cursor, which is empty at the start.
    pub fn list(&self, lists: impl Fn(&str) -> Value + Send + Sync + 'static) {
        self.state().lists = Arc::new(lists);
    }

    /// Answers the next request to the path with this status.
    pub fn fail(&self, path: &str, status: u16) {
        self.state().failures.entry(path.to_owned()).or_default().push(status);
    }

    /// The number of refreshes, and of refresh tokens that were used again.
    pub fn refreshes(&self) -> (u32, u32) {
        let state = self.state();
        (state.refreshes, state.reused)
    }

    /// The number of requests to the path.
    pub fn count(&self, path: &str) -> usize {
        let path = format!("/probe.example/{path}");
        self.upstream
            .requests()
            .iter()
            .filter(|request| request.path_and_query.split('?').next() == Some(&path))
            .count()
    }
}

impl State {
    fn answer(&mut self, request: &ReceivedRequest) -> Response<Bytes> {
        let json = |status, body: Value| respond(status, "application/json", body.to_string());
        let (path, query) = request.path_and_query.split_once('?').unwrap_or((&request.path_and_query, ""));
        let path = path.trim_start_matches("/probe.example/");
        if let Some(status) = self.failures.get_mut(path).and_then(Vec::pop) {
            return json(status, json!({ "error": "the test says so" }));
        }
        let form: HashMap<String, String> = url::form_urlencoded::parse(&request.body).into_owned().collect();
        let bearer = request.headers.get("authorization").and_then(|value| value.to_str().ok());
        let account = bearer.and_then(|text| self.access.get(text.trim_start_matches("Bearer "))).cloned();
        match (path, account) {
            ("token", _) => self.token(&form),
            ("revoke", _) => {
                self.access.remove(&form["token"]);
                json(200, json!({}))
            }
            (_, None) => json(401, json!({ "error": "invalid_token" })),
            ("me", Some(account)) => {
                json(200, json!({ "id": account, "name": format!("Name of {account}") }))
            }
            ("items", Some(_)) => {
                let query: HashMap<_, _> =
                    url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
                json(200, (self.lists)(&query["cursor"]))
            }
            _ => json(404, json!({})),
        }
    }

    fn token(&mut self, form: &HashMap<String, String>) -> Response<Bytes> {
        let refused = || respond(401, "application/json", r#"{"error":"invalid_grant"}"#);
        let account = if let Some(old) = form.get("refresh_token") {
            let Some(account) = self.refresh.remove(old) else {
                self.reused += u32::from(self.spent.contains(old));
                return refused();
            };
            self.spent.insert(old.clone());
            self.refreshes += 1;
            account
        } else {
            let Some((challenge, redirect_uri, account)) =
                form.get("code").and_then(|code| self.codes.remove(code))
            else {
                return refused();
            };
            let verifier = form.get("code_verifier").cloned().unwrap_or_default();
            let proves = URL_SAFE_NO_PAD.encode(sha256(verifier.as_bytes())) == challenge;
            if !proves || form.get("redirect_uri") != Some(&redirect_uri) {
                return refused();
            }
            account
        };
        self.count += 1;
        let (access, refresh) = (format!("access-{}", self.count), format!("refresh-{}", self.count));
        self.access.insert(access.clone(), account.clone());
        self.refresh.insert(refresh.clone(), account);
        let body = json!({ "access_token": access, "refresh_token": refresh, "expires_in": self.expires_in });
        respond(200, "application/json", body.to_string())
    }
}
