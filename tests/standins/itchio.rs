//! A stand-in for itch.io, made from its public documentation: OAuth and the API of profiles and owned keys. All hosts are
//! behind one address: `https://api.itch.io/x` is `URL/api.itch.io/x`.

use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http::{Method, Response};
use serde_json::{Value, json};

use crate::code_flow::{CodeFlow, json_response, query};
use crate::upstream::{ReceivedRequest, Upstream, respond};

pub const CLIENT_ID: &str = "itchio-client";
/// The account of the user who is signed in in the browser.
pub const USER_ID: u64 = 4711;

/// Keys of a page.
const PAGE: usize = 50;

/// The running stand-in.
#[derive(Debug)]
pub struct Itchio {
    pub upstream: Upstream,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    flow: CodeFlow,
    keys: Vec<Value>,
}

impl Itchio {
    pub async fn start() -> Self {
        let state = Arc::new(Mutex::new(State { flow: CodeFlow::new(CLIENT_ID, None), keys: Vec::new() }));
        let shared = Arc::clone(&state);
        let upstream = Upstream::start(move |request| answer(&mut lock(&shared), request)).await;
        Self { upstream, state }
    }

    /// The URL under which plugins reach all hosts of the service.
    pub fn proxy_url(&self) -> String {
        format!("http://localhost:{}", self.upstream.address.port())
    }

    /// Gives the user keys of the games 1 to `count`.
    pub fn set_games(&self, count: u64) {
        let key = |id: u64| {
            let game = json!({"id": id, "title": format!("Game {id}"), "url": format!("https://maker.itch.io/game-{id}"),
                "type": "default", "classification": "game"});
            json!({"id": id + 1_000, "game_id": id, "created_at": "2020-01-02T03:04:05.000000000Z", "downloads": 1,
                "game": game})
        };
        lock(&self.state).keys = (1..=count).map(key).collect();
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
    match (&request.method, path) {
        (&Method::GET, "/itch.io/user/oauth") => state.flow.authorize(request, "profile:me profile:owned"),
        (&Method::POST, "/api.itch.io/oauth/token") => state.flow.token(request),
        (&Method::GET, "/api.itch.io/profile") => state.authorized(request, |_| profile()),
        (&Method::GET, "/api.itch.io/profile/owned-keys") => {
            state.authorized(request, |state| state.owned_keys(request))
        }
        _ => json_response(404, &json!({"errors": ["not found"]})),
    }
}

fn profile() -> Response<Bytes> {
    let user = json!({"id": USER_ID, "username": "maker", "display_name": "Maker",
        "url": "https://maker.itch.io", "cover_url": "https://img.example/cover.png"});
    json_response(200, &json!({"user": user}))
}

impl State {
    fn authorized(
        &self,
        request: &ReceivedRequest,
        then: impl FnOnce(&Self) -> Response<Bytes>,
    ) -> Response<Bytes> {
        let token = request
            .headers
            .get("authorization")
            .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        if token.is_some_and(|token| self.flow.accepts(token)) {
            return then(self);
        }
        respond(401, "application/json", json!({"errors": ["invalid key"]}).to_string())
    }

    fn owned_keys(&self, request: &ReceivedRequest) -> Response<Bytes> {
        let page: usize = query(request).get("page").and_then(|page| page.parse().ok()).unwrap_or(1);
        let keys: Vec<&Value> = self.keys.iter().skip((page.max(1) - 1) * PAGE).take(PAGE).collect();
        // An empty list is an object there.
        let keys = if keys.is_empty() { json!({}) } else { json!(keys) };
        json_response(200, &json!({"owned_keys": keys, "page": page, "per_page": PAGE}))
    }
}
