//! A stand-in for Microsoft's sign-in and Xbox Live, made from their public documentation. All hosts are behind one
//! address: `https://profile.xboxlive.com/x` is `URL/profile.xboxlive.com/x`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http::{Method, Response};
use serde_json::{Value, json};

use crate::code_flow::{CodeFlow, json_response};
use crate::upstream::{ReceivedRequest, Upstream, respond};

pub const CLIENT_ID: &str = "microsoft-client";
pub const CLIENT_SECRET: &str = "microsoft-secret";
/// The account of the user who is signed in in the browser.
pub const XUID: &str = "2533274790395904";

/// The hash of the user in claims and headers.
const USER_HASH: &str = "1234567890123456789";

/// The running stand-in.
#[derive(Debug)]
pub struct Microsoft {
    pub upstream: Upstream,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    flow: CodeFlow,
    user_tokens: BTreeSet<String>,
    xsts_tokens: BTreeSet<String>,
    issued: u32,
    titles: Vec<Value>,
    /// The error with which XSTS refuses the user.
    refusal: Option<u64>,
}

impl Microsoft {
    pub async fn start() -> Self {
        let state = Arc::new(Mutex::new(State {
            flow: CodeFlow::new(CLIENT_ID, Some(CLIENT_SECRET)),
            user_tokens: BTreeSet::new(),
            xsts_tokens: BTreeSet::new(),
            issued: 0,
            titles: Vec::new(),
            refusal: None,
        }));
        let shared = Arc::clone(&state);
        let upstream = Upstream::start(move |request| answer(&mut lock(&shared), request)).await;
        Self { upstream, state }
    }

    /// The URL under which plugins reach all hosts of the service.
    pub fn proxy_url(&self) -> String {
        format!("http://localhost:{}", self.upstream.address.port())
    }

    /// Lets the user have played the games with the ids 1 to `count`, and used an app.
    pub fn set_titles(&self, count: u32) {
        let title = |id: u32, kind: &str| {
            json!({"titleId": id.to_string(), "pfn": "Publisher.Game_8wekyb3d8bbwe", "name": format!("Game {id}"),
                "type": kind, "devices": ["XboxSeries"], "titleHistory": {"lastTimePlayed": "2023-11-14T22:13:20Z"}})
        };
        let games = (1..=count).map(|id| title(id, "Game"));
        lock(&self.state).titles = games.chain([title(999_999, "App")]).collect();
    }

    /// Has XSTS refuse the user with an error, such as 2148916233: no Xbox profile.
    pub fn refuse(&self, error: Option<u64>) {
        lock(&self.state).refusal = error;
    }

    pub fn expire_access_tokens(&self) {
        lock(&self.state).flow.expire();
    }

    pub fn end_sign_ins(&self) {
        lock(&self.state).flow.end();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("no test panics here")
}

fn answer(state: &mut State, request: &ReceivedRequest) -> Response<Bytes> {
    let path = request.path_and_query.split('?').next().unwrap_or_default();
    let titles = format!("/titlehub.xboxlive.com/users/xuid({XUID})/titles/titleHistory/decoration/detail");
    match (&request.method, path) {
        (&Method::GET, "/login.microsoftonline.com/consumers/oauth2/v2.0/authorize") => {
            state.flow.authorize(request, "XboxLive.signin offline_access")
        }
        (&Method::POST, "/login.microsoftonline.com/consumers/oauth2/v2.0/token") => {
            state.flow.token(request)
        }
        (&Method::POST, "/user.auth.xboxlive.com/user/authenticate") => state.authenticate(request),
        (&Method::POST, "/xsts.auth.xboxlive.com/xsts/authorize") => state.authorize(request),
        (&Method::GET, "/profile.xboxlive.com/users/me/profile/settings") => {
            state.authorized(request, |_| profile())
        }
        (&Method::GET, path) if path == titles => state
            .authorized(request, |state| json_response(200, &json!({"xuid": XUID, "titles": state.titles}))),
        _ => respond(404, "text/plain", ""),
    }
}

fn profile() -> Response<Bytes> {
    let settings = json!([
        {"id": "Gamertag", "value": "Major Nelson"},
        {"id": "GameDisplayPicRaw", "value": "https://images.example/pic.png"},
    ]);
    let user = json!({"id": XUID, "hostId": XUID, "settings": settings, "isSponsoredUser": false});
    json_response(200, &json!({"profileUsers": [user]}))
}

impl State {
    /// Microsoft's token becomes a user token.
    fn authenticate(&mut self, request: &ReceivedRequest) -> Response<Bytes> {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let properties = &body["Properties"];
        let ticket = properties["RpsTicket"].as_str().and_then(|ticket| ticket.strip_prefix("d="));
        let is_request = body["RelyingParty"] == "http://auth.xboxlive.com"
            && body["TokenType"] == "JWT"
            && properties["AuthMethod"] == "RPS"
            && properties["SiteName"] == "user.auth.xboxlive.com";
        if !is_request {
            return respond(400, "text/plain", "");
        }
        if !ticket.is_some_and(|ticket| self.flow.accepts(ticket)) {
            return respond(401, "text/plain", "");
        }
        let token = self.next("user");
        self.user_tokens.insert(token.clone());
        tokens(&token, json!({"uhs": USER_HASH}))
    }

    /// A user token becomes an XSTS token.
    fn authorize(&mut self, request: &ReceivedRequest) -> Response<Bytes> {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let token = body["Properties"]["UserTokens"][0].as_str().unwrap_or_default();
        let is_request = body["RelyingParty"] == "http://xboxlive.com"
            && body["TokenType"] == "JWT"
            && body["Properties"]["SandboxId"] == "RETAIL";
        if !is_request {
            return respond(400, "text/plain", "");
        }
        if let Some(error) = self.refusal {
            let body = json!({"Identity": "0", "XErr": error, "Message": "", "Redirect": "https://start.ui.xboxlive.com"});
            return json_response(401, &body);
        }
        if !self.user_tokens.contains(token) {
            return respond(401, "text/plain", "");
        }
        let token = self.next("xsts");
        self.xsts_tokens.insert(token.clone());
        tokens(&token, json!({"uhs": USER_HASH, "xid": XUID, "gtg": "Major Nelson"}))
    }

    fn authorized(
        &self,
        request: &ReceivedRequest,
        then: impl FnOnce(&Self) -> Response<Bytes>,
    ) -> Response<Bytes> {
        let header =
            |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if header("x-xbl-contract-version").is_empty() {
            return respond(400, "text/plain", "");
        }
        let start = format!("XBL3.0 x={USER_HASH};");
        let token = header("authorization").strip_prefix(&start).unwrap_or_default();
        if self.xsts_tokens.contains(token) { then(self) } else { respond(401, "text/plain", "") }
    }

    fn next(&mut self, kind: &str) -> String {
        self.issued += 1;
        format!("{kind}-token-{}", self.issued)
    }
}

fn tokens(token: &str, claims: Value) -> Response<Bytes> {
    let body = json!({
        "IssueInstant": "2023-11-14T22:13:20Z", "NotAfter": "2023-11-15T22:13:20Z", "Token": token,
        "DisplayClaims": {"xui": [claims]},
    });
    json_response(200, &body)
}
