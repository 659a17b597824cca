//! A stand-in for Steam, made from its public documentation: OpenID 2.0 and the Web API. All hosts are behind one address:
//! `https://api.steampowered.com/x` is `URL/api.steampowered.com/x`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http::{Method, Response};
use serde_json::{Value, json};

use crate::code_flow::{json_response, parameters, query, redirect, with_query};
use crate::upstream::{ReceivedRequest, Upstream, respond};

/// The only key that the Web API accepts.
pub const API_KEY: &str = "0123456789ABCDEF0123456789ABCDEF";
/// The user who is signed in in the browser.
pub const STEAM_ID: &str = "76561197960287930";

const ENDPOINT: &str = "https://steamcommunity.com/openid/login";
const NAMESPACE: &str = "http://specs.openid.net/auth/2.0";
const SIGNED: &str = "signed,op_endpoint,claimed_id,identity,return_to,response_nonce,assoc_handle";

/// The running stand-in.
#[derive(Debug)]
pub struct Steam {
    pub upstream: Upstream,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The start of nonces, as `2023-11-14T22:13:20Z`.
    now: String,
    /// Assertions that were not checked, by signature.
    assertions: BTreeMap<String, BTreeMap<String, String>>,
    issued: u32,
    /// None while the user's game details are private.
    games: Option<Vec<Value>>,
}

impl Steam {
    /// `now` is the time of assertions, as `2023-11-14T22:13:20Z`.
    pub async fn start(now: &str) -> Self {
        let state = State { now: now.to_owned(), games: Some(Vec::new()), ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let upstream = Upstream::start(move |request| answer(&mut lock(&shared), request)).await;
        Self { upstream, state }
    }

    /// The URL under which plugins reach all hosts of the service.
    pub fn proxy_url(&self) -> String {
        format!("http://localhost:{}", self.upstream.address.port())
    }

    pub fn set_now(&self, now: &str) {
        now.clone_into(&mut lock(&self.state).now);
    }

    /// Gives the user games with the ids 1 to `count`, or hides them.
    pub fn set_games(&self, count: Option<u32>) {
        let game = |id: u32| {
            json!({"appid": id, "name": format!("Game {id}"), "playtime_forever": id * 10,
                "rtime_last_played": 1_700_000_000, "img_icon_url": "", "playtime_windows_forever": 0})
        };
        lock(&self.state).games = count.map(|count| (1..=count).map(game).collect());
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("no test panics here")
}

fn answer(state: &mut State, request: &ReceivedRequest) -> Response<Bytes> {
    let path = request.path_and_query.split('?').next().unwrap_or_default();
    match (&request.method, path) {
        (&Method::GET, "/steamcommunity.com/openid/login") => state.sign_in(request),
        (&Method::POST, "/steamcommunity.com/openid/login") => state.check(request),
        (&Method::GET, "/api.steampowered.com/ISteamUser/GetPlayerSummaries/v2/") => summaries(request),
        (&Method::GET, "/api.steampowered.com/IPlayerService/GetOwnedGames/v1/") => {
            state.owned_games(request)
        }
        _ => respond(404, "text/html", "not found"),
    }
}

impl State {
    /// The user signs in at once.
    fn sign_in(&mut self, request: &ReceivedRequest) -> Response<Bytes> {
        let query = query(request);
        let get = |name: &str| query.get(name).map_or("", String::as_str);
        let (realm, return_to) = (get("openid.realm"), get("openid.return_to"));
        let select = "http://specs.openid.net/auth/2.0/identifier_select";
        if get("openid.mode") != "checkid_setup"
            || get("openid.ns") != NAMESPACE
            || get("openid.identity") != select
        {
            return respond(400, "text/plain", "no request for a sign-in");
        }
        if realm.is_empty() || !return_to.starts_with(realm) {
            return respond(400, "text/plain", "the realm does not cover return_to");
        }
        self.issued += 1;
        let signature = format!("signature+{}=", self.issued);
        let claimed_id = format!("https://steamcommunity.com/openid/id/{STEAM_ID}");
        let nonce = format!("{}nonce{}", self.now, self.issued);
        let fields = [
            ("openid.ns", NAMESPACE),
            ("openid.mode", "id_res"),
            ("openid.op_endpoint", ENDPOINT),
            ("openid.claimed_id", &claimed_id),
            ("openid.identity", &claimed_id),
            ("openid.return_to", return_to),
            ("openid.response_nonce", &nonce),
            ("openid.assoc_handle", "1234567890"),
            ("openid.signed", SIGNED),
            ("openid.sig", &signature),
        ];
        let kept = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        self.assertions.insert(signature.clone(), kept);
        redirect(&with_query(return_to, &fields))
    }

    /// Confirms an assertion, once.
    fn check(&mut self, request: &ReceivedRequest) -> Response<Bytes> {
        let form = parameters(&request.body);
        let issued = form.get("openid.sig").and_then(|signature| self.assertions.remove(signature));
        let is_valid = issued.is_some_and(|issued| {
            let mut fields = issued.iter().filter(|(name, _)| *name != "openid.mode");
            let is_check = form.get("openid.mode").is_some_and(|mode| mode == "check_authentication");
            is_check && fields.all(|(name, value)| form.get(name) == Some(value))
        });
        respond(200, "text/plain", format!("ns:{NAMESPACE}\nis_valid:{is_valid}\n"))
    }

    fn owned_games(&self, request: &ReceivedRequest) -> Response<Bytes> {
        let query = query(request);
        if query.get("key").is_none_or(|key| key != API_KEY) {
            return unauthorized();
        }
        let is_user = query.get("steamid").is_some_and(|id| id == STEAM_ID);
        let response = match &self.games {
            Some(games) if is_user => json!({"game_count": games.len(), "games": games}),
            _ => json!({}),
        };
        json_response(200, &json!({"response": response}))
    }
}

fn summaries(request: &ReceivedRequest) -> Response<Bytes> {
    let query = query(request);
    if query.get("key").is_none_or(|key| key != API_KEY) {
        return unauthorized();
    }
    let is_user = query.get("steamids").is_some_and(|ids| ids == STEAM_ID);
    let player = json!({
        "steamid": STEAM_ID, "communityvisibilitystate": 3, "profilestate": 1, "personaname": "Rabscuttle",
        "profileurl": "https://steamcommunity.com/id/rabscuttle/", "avatarfull": "https://avatars.example/full.jpg",
    });
    let players = if is_user { vec![player] } else { Vec::new() };
    json_response(200, &json!({"response": {"players": players}}))
}

fn unauthorized() -> Response<Bytes> {
    respond(401, "text/html", "<html><head><title>Unauthorized</title></head></html>")
}
