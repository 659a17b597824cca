//! A PDS with its authorization server: issues tokens for accounts, renews each refresh token once, and accepts writes.
//! DPoP proofs are decoded but not verified: the real PDS of `tests/network` does that.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use belvedere_standins::upstream::{ReceivedRequest, Upstream, respond};
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::plc::Person;

/// The running server.
pub struct OauthPds {
    upstream: Upstream,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The DIDs of valid access tokens.
    access: HashMap<String, String>,
    /// The DIDs of valid refresh tokens.
    refresh: HashMap<String, String>,
    /// Refresh tokens that were already used.
    spent: HashSet<String>,
    count: u32,
    refreshes: u32,
    reused: u32,
    /// The nonce that proofs must have.
    nonce: Option<String>,
    /// Fixed responses, by path.
    overrides: HashMap<String, (StatusCode, Value)>,
    redirects: HashMap<String, String>,
    /// The parameters of pushed authorization requests, by request URI.
    pushed: HashMap<String, HashMap<String, String>>,
    /// Accounts for which it signs service tokens.
    people: HashMap<String, Person>,
    /// The account that consented and the pushed parameters, by authorization code.
    codes: HashMap<String, (String, HashMap<String, String>)>,
}

impl OauthPds {
    pub async fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let origin = Arc::new(OnceLock::new());
        let (known, own) = (Arc::clone(&state), Arc::clone(&origin));
        let upstream = Upstream::start(move |request| {
            let origin: &String = own.get().expect("requests come only after the origin is set");
            known.lock().expect("no test panics here").answer(origin, request)
        })
        .await;
        origin.set(upstream.url()).expect("the origin is set once");
        Self { upstream, state }
    }

    pub fn url(&self) -> String {
        self.upstream.url()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics here")
    }

    /// Issues an access token and a refresh token for an account.
    pub fn grant(&self, did: &str) -> (String, String) {
        self.state().grant(did)
    }

    /// Acts as a user who follows an authorization URL and consents. Returns the parameters of the redirect back.
    pub fn consent(&self, did: &str, url: &str) -> HashMap<String, String> {
        let url = url::Url::parse(url).expect("a URL");
        let query: HashMap<_, _> = url.query_pairs().into_owned().collect();
        let mut state = self.state();
        let pushed = state.pushed.remove(&query["request_uri"]).expect("the request was pushed");
        assert_eq!(pushed["client_id"], query["client_id"]);
        state.count += 1;
        let code = format!("code-{}", state.count);
        let back = [("state", pushed["state"].clone()), ("code", code.clone()), ("iss", self.url())];
        state.codes.insert(code, (did.to_owned(), pushed));
        back.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// Signs service tokens for an account, with its key.
    pub fn sign_for(&self, person: &Person) {
        self.state().people.insert(person.did.clone(), person.clone());
    }

    /// Invalidates the access token.
    pub fn expire(&self, access: &str) {
        self.state().access.remove(access);
    }

    /// Invalidates all access tokens.
    pub fn expire_all(&self) {
        self.state().access.clear();
    }

    /// Invalidates all access and refresh tokens.
    pub fn revoke_all(&self) {
        let mut state = self.state();
        state.access.clear();
        state.refresh.clear();
    }

    /// Requires this nonce in all later proofs.
    pub fn demand_nonce(&self, nonce: &str) {
        self.state().nonce = Some(nonce.to_owned());
    }

    /// Answers all later requests to the path with this response.
    pub fn respond_with(&self, path: &str, status: u16, body: Value) {
        let status = StatusCode::from_u16(status).expect("a status");
        self.state().overrides.insert(path.to_owned(), (status, body));
    }

    /// Ends [`Self::respond_with`].
    pub fn respond_normally(&self, path: &str) {
        self.state().overrides.remove(path);
    }

    /// Answers all later requests to the path with a redirect.
    pub fn redirect(&self, path: &str, to: &str) {
        self.state().redirects.insert(path.to_owned(), to.to_owned());
    }

    /// The number of renewals of tokens.
    pub fn refreshes(&self) -> u32 {
        self.state().refreshes
    }

    /// The number of times that a client presented a refresh token that was already used.
    pub fn reused(&self) -> u32 {
        self.state().reused
    }

    /// The requests received so far whose path begins with `path`.
    pub fn requests(&self, path: &str) -> Vec<ReceivedRequest> {
        self.upstream
            .requests()
            .into_iter()
            .filter(|request| request.path_and_query.starts_with(path))
            .collect()
    }
}

impl State {
    fn grant(&mut self, did: &str) -> (String, String) {
        self.count += 1;
        let (access, refresh) =
            (format!("access-{}-{did}", self.count), format!("refresh-{}-{did}", self.count));
        self.access.insert(access.clone(), did.to_owned());
        self.refresh.insert(refresh.clone(), did.to_owned());
        (access, refresh)
    }

    fn answer(&mut self, origin: &str, request: &ReceivedRequest) -> Response<Bytes> {
        let path = request.path_and_query.split('?').next().unwrap_or_default();
        if let Some((status, body)) = self.overrides.get(path) {
            return respond(status.as_u16(), "application/json", body.to_string());
        }
        if let Some(to) = self.redirects.get(path) {
            let mut response = respond(302, "text/plain", "");
            response.headers_mut().insert("location", to.parse().expect("a URL"));
            return response;
        }
        let json = |status, body: Value| respond(status, "application/json", body.to_string());
        match path {
            "/.well-known/oauth-protected-resource" => {
                return json(200, json!({ "resource": origin, "authorization_servers": [origin] }));
            }
            "/.well-known/oauth-authorization-server" => {
                return json(
                    200,
                    json!({
                        "issuer": origin, "authorization_endpoint": format!("{origin}/oauth/authorize"),
                        "token_endpoint": format!("{origin}/oauth/token"),
                        "pushed_authorization_request_endpoint": format!("{origin}/oauth/par"),
                        "revocation_endpoint": format!("{origin}/oauth/revoke"),
                    }),
                );
            }
            _ => {}
        }
        if let Some(nonce) = &self.nonce
            && claims(request)["nonce"] != nonce.as_str()
        {
            let mut response = json(401, json!({ "error": "use_dpop_nonce" }));
            response.headers_mut().insert("dpop-nonce", nonce.parse().expect("a header"));
            return response;
        }
        match path {
            "/oauth/token" => self.token(request),
            "/oauth/par" => self.par(request),
            "/oauth/revoke" => json(200, json!({})),
            _ => self.xrpc(path, request),
        }
    }

    fn par(&mut self, request: &ReceivedRequest) -> Response<Bytes> {
        let form = form(request);
        self.count += 1;
        let uri = format!("urn:request:{}", self.count);
        self.pushed.insert(uri.clone(), form);
        respond(201, "application/json", json!({ "request_uri": uri, "expires_in": 60 }).to_string())
    }

    /// Exchanges a code for tokens, if the PKCE verifier matches the challenge.
    fn exchange(&mut self, form: &HashMap<String, String>) -> Response<Bytes> {
        let json = |status, body: Value| respond(status, "application/json", body.to_string());
        let field = |name: &str| form.get(name).cloned().unwrap_or_default();
        let Some((did, pushed)) = self.codes.remove(&field("code")) else {
            return json(400, json!({ "error": "invalid_grant" }));
        };
        let challenge =
            URL_SAFE_NO_PAD.encode(belvedere_protocol::crypto::sha256(field("code_verifier").as_bytes()));
        let same = |name: &str| pushed.get(name) == form.get(name);
        if pushed.get("code_challenge") != Some(&challenge) || !same("redirect_uri") || !same("client_id") {
            return json(400, json!({ "error": "invalid_grant" }));
        }
        let (access, refresh) = self.grant(&did);
        json(
            200,
            json!({ "access_token": access, "refresh_token": refresh, "token_type": "DPoP",
            "expires_in": 3600, "scope": pushed["scope"], "sub": did }),
        )
    }

    fn token(&mut self, request: &ReceivedRequest) -> Response<Bytes> {
        let json = |status, body: Value| respond(status, "application/json", body.to_string());
        let form = form(request);
        if form.get("grant_type").is_some_and(|kind| kind == "authorization_code") {
            return self.exchange(&form);
        }
        let refresh = form.get("refresh_token").cloned().unwrap_or_default();
        let Some(did) = self.refresh.remove(&refresh) else {
            self.reused += u32::from(self.spent.contains(&refresh));
            return json(400, json!({ "error": "invalid_grant" }));
        };
        self.spent.insert(refresh);
        self.refreshes += 1;
        let (access, refresh) = self.grant(&did);
        json(
            200,
            json!({ "access_token": access, "refresh_token": refresh, "token_type": "DPoP",
            "expires_in": 3600, "scope": "atproto", "sub": did }),
        )
    }

    fn xrpc(&mut self, path: &str, request: &ReceivedRequest) -> Response<Bytes> {
        let json = |status, body: Value| respond(status, "application/json", body.to_string());
        let token =
            request.headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let Some(did) = token.strip_prefix("DPoP ").and_then(|token| self.access.get(token)).cloned() else {
            let mut response = json(401, json!({ "error": "invalid_token", "message": "no" }));
            let challenge = r#"DPoP error="invalid_token""#.parse().expect("a header");
            response.headers_mut().insert("www-authenticate", challenge);
            return response;
        };
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let commit = |count: u32| {
            let rev = belvedere_protocol::atproto::Tid::new(1_700_000_000_000_000 + u64::from(count), 0);
            json!({ "cid": "bafyreic", "rev": rev.expect("a TID").to_string() })
        };
        self.count += 1;
        match path.trim_start_matches("/xrpc/") {
            "com.atproto.server.getServiceAuth" if self.people.contains_key(&did) => {
                let query = request.path_and_query.split_once('?').map_or("", |(_, query)| query);
                let query: HashMap<_, _> =
                    url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
                let token = self.people[&did].token(&query["aud"], json!({ "lxm": query["lxm"] }));
                json(200, json!({ "token": token }))
            }
            "com.atproto.server.getSession" => json(200, json!({ "did": did, "handle": "alice.example" })),
            "com.atproto.repo.createRecord" | "com.atproto.repo.putRecord" => {
                let mut record = body["record"].clone();
                if record["$type"].is_null() {
                    record["$type"] = body["collection"].clone();
                }
                let record = belvedere_protocol::atproto::record::inspect(record.to_string().as_bytes());
                let cid = record.ok().and_then(|record| record.cid.ok()).expect("a record").to_string();
                let generated = format!("made{}", self.count);
                let rkey = body["rkey"].as_str().unwrap_or(&generated);
                let uri = format!("at://{did}/{}/{rkey}", body["collection"].as_str().unwrap_or_default());
                json(
                    200,
                    json!({ "uri": uri, "cid": cid, "commit": commit(self.count), "validationStatus": "unknown" }),
                )
            }
            "com.atproto.repo.deleteRecord" => json(200, json!({ "commit": commit(self.count) })),
            "com.atproto.repo.uploadBlob" => {
                let kind = request
                    .headers
                    .get("content-type")
                    .and_then(|kind| kind.to_str().ok())
                    .unwrap_or_default();
                json(
                    200,
                    json!({ "blob": { "$type": "blob", "size": request.body.len(), "mimeType": kind } }),
                )
            }
            _ => json(501, json!({ "error": "MethodNotImplemented" })),
        }
    }
}

fn form(request: &ReceivedRequest) -> HashMap<String, String> {
    url::form_urlencoded::parse(&request.body).into_owned().collect()
}

/// The claims of a request's DPoP proof, unverified.
pub fn claims(request: &ReceivedRequest) -> Value {
    let proof = request.headers.get("dpop").and_then(|proof| proof.to_str().ok()).unwrap_or_default();
    let payload = proof.split('.').nth(1).unwrap_or_default();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap_or_default()).unwrap_or_default()
}
