//! Followed spaces whose host lies: it ignores cursors, sends too much, forges commits, or ends the space. Nothing that it says without
//! a proof is shown, and nothing that it does harms the server.

use std::sync::{Arc, Mutex};

use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_protocol::atproto::{Did, Tid, record};
use belvedere_protocol::crypto::{Algorithm, PrivateKey, PublicKey};
use belvedere_protocol::spaces::r10::token::{Binding, Credential, KeyId};
use belvedere_protocol::spaces::r10::{Commit, Export, RepoEntry};
use belvedere_protocol::spaces::{RecordPath, SetHash, SpaceRepo, SpaceUri};
use belvedere_standins::upstream::{ReceivedRequest, Upstream, respond};
use bytes::Bytes;
use http::{Method, Response};
use serde_json::{Value, json};

use super::{Group, KIND, call_at, error};
use crate::fixtures::{BOB, World};
use crate::support::app::App;
use crate::support::instance::{Answer, query_lexicon};
use crate::support::oauth_pds::OauthPds;
use crate::support::plc::Person;

crate::in_both_worlds!(
    a_space_of_an_honest_host_is_copied,
    forged_repos_are_not_shown,
    answers_that_are_no_lists_change_nothing,
    a_list_without_an_end_has_a_bound,
    a_space_that_answers_as_deleted_is_forgotten,
    a_host_that_is_nowhere_refuses_no_user,
    a_space_that_its_host_ended_is_forgotten
);

const AUTHORITY: &str = "did:plc:authorityauthorityauthor";
const AUTHOR: &str = "did:plc:authorauthorauthorauthor";
const NOTE: &str = "com.example.note";

/// The behaviour of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Honest,
    /// Signs commits with a key that is not its own.
    ForgesCommits,
    /// Sends other records than those of its commit.
    ForgesRecords,
    /// Sends the beginning of a repo only.
    CutsRepos,
    /// Sends the index of a repo without its records.
    OmitsRecords,
    /// Sends the list of repos whatever the cursor is, with a new cursor each time.
    IgnoresCursors,
    SendsMalformedLists,
    SendsLargeLists,
    /// Sends a cursor that no database stores.
    SendsOddCursors,
    Fails,
    /// Is behind a proxy that finds it nowhere.
    IsNowhere,
    HasEnded,
}

struct Host {
    key: PrivateKey,
    mode: Mode,
    space: SpaceUri,
    text: &'static str,
    pages: u64,
}

impl Host {
    fn rev(&self) -> Tid {
        Tid::new(1_700_000_000_000_000 + self.text.len() as u64, 0).unwrap()
    }

    fn record(&self) -> (Bytes, RecordPath) {
        let json = json!({ "$type": NOTE, "text": self.text }).to_string();
        (json.into(), RecordPath::parse(&format!("{NOTE}/a")).unwrap())
    }

    fn answer(&mut self, request: &ReceivedRequest) -> Response<Bytes> {
        let json = |status, body: Value| respond(status, "application/json", body.to_string());
        let path = request.path_and_query.split('?').next().unwrap_or_default();
        match (path.rsplit('.').next().unwrap_or_default(), self.mode) {
            ("getDelegationToken", _) => json(200, json!({ "token": "delegated" })),
            (_, Mode::IsNowhere) => respond(404, "text/html", "<h1>404</h1>"),
            ("getSpaceCredential", Mode::HasEnded) => json(400, json!({ "error": "SpaceDeleted" })),
            ("getSpaceCredential", _) => json(200, json!({ "credential": self.credential(request) })),
            ("registerNotify", _) => json(200, json!({ "expiresAt": "2030-01-01T00:00:00Z" })),
            (_, Mode::Fails) => json(500, json!({ "error": "InternalServerError" })),
            ("listRepos", _) => self.list(request),
            ("listRepoOps", _) => json(400, json!({ "error": "InvalidRequest" })),
            ("getRepo", _) => respond(200, "application/vnd.ipld.car", self.repo()),
            _ => json(404, json!({ "error": "NotFound" })),
        }
    }

    /// A credential for the key that has signed the request.
    fn credential(&self, request: &ReceivedRequest) -> String {
        let input = request.headers["signature-input"].to_str().unwrap();
        let key = input.split("keyid=\"").nth(1).unwrap().split('"').next().unwrap();
        let binding = Binding::Key(PublicKey::from_did_key(key).unwrap());
        let (jti, now) = (Random::system().hex(8), Clock::system().now());
        Credential::issue(&self.key, KeyId::AtprotoSpace, &self.space, &binding, &jti, now).0
    }

    fn list(&mut self, request: &ReceivedRequest) -> Response<Bytes> {
        self.pages += 1;
        let entry = |did: &str| {
            let (did, host) = (Did::try_from(did).unwrap(), Did::try_from(AUTHORITY).ok());
            RepoEntry { did, rev: self.rev(), hash: [7; 32], space_rev: self.rev(), host }.to_json()
        };
        let (repos, cursor) = match self.mode {
            Mode::SendsMalformedLists => (vec![json!({ "did": 1 })], Some("x".to_owned())),
            Mode::SendsOddCursors => (vec![entry(AUTHORITY)], Some("a\0b".to_owned())),
            Mode::SendsLargeLists => {
                (vec![json!({ "did": AUTHOR, "more": "x".repeat(4 << 20) })], Some("x".to_owned()))
            }
            Mode::IgnoresCursors => {
                let did = |n| {
                    format!(
                        "did:plc:{}",
                        format!("{:024}", self.pages * 1_000 + n).replace(['0', '1', '8', '9'], "a")
                    )
                };
                ((0..1_000).map(|n| entry(&did(n))).collect(), Some(self.pages.to_string()))
            }
            _ if request.path_and_query.contains(&format!("cursor={}", self.rev())) => (Vec::new(), None),
            _ => (vec![entry(AUTHOR)], Some(self.rev().to_string())),
        };
        respond(200, "application/json", json!({ "repos": repos, "cursor": cursor }).to_string())
    }

    fn repo(&self) -> Bytes {
        let (json, path) = self.record();
        let cbor = record::to_cbor(&json).unwrap().unwrap();
        let cid = record::inspect(&json).unwrap().cid.unwrap();
        let mut hash = SetHash::default();
        hash.add(&path, cid);
        let author = Did::try_from(AUTHOR).unwrap();
        let other = PrivateKey::generate(Algorithm::Es256, &Random::system());
        let key = if self.mode == Mode::ForgesCommits { &other } else { &self.key };
        let digest = if self.mode == Mode::ForgesRecords { [9; 32] } else { hash.digest() };
        let repo = SpaceRepo { space: &self.space, author: &author };
        let commit = Commit::sign(repo, self.rev(), digest, Random::system().bytes(), key);
        let export = Export::new(&commit, vec![(path, cid)]);
        let mut car = export.head().to_vec();
        if self.mode != Mode::OmitsRecords {
            Export::append_record(&mut car, cid, &cbor);
        }
        if self.mode == Mode::CutsRepos {
            car.truncate(car.len() - 5);
        }
        car.into()
    }
}

/// A server whose user Bob follows a space of a host that a test controls.
struct Stage {
    group: Group,
    authority: Person,
    host: Arc<Mutex<Host>>,
    space: String,
    _pds: OauthPds,
    upstream: Upstream,
}

impl Stage {
    async fn of(world: World, mode: Mode) -> Self {
        let group = Group::exposed(world).await;
        let space = format!("at://{AUTHORITY}/space/{KIND}/main");
        let key = PrivateKey::generate(Algorithm::Es256, &Random::system());
        let authority = group.world.plc.person(AUTHORITY, Algorithm::Es256k);
        group.world.plc.person(AUTHOR, Algorithm::Es256k);
        group.world.plc.space_key(AUTHORITY, &key.public());
        let uri = SpaceUri::parse(&space).unwrap();
        let host = Arc::new(Mutex::new(Host { key, mode, space: uri, text: "first", pages: 0 }));
        let shared = Arc::clone(&host);
        let upstream = Upstream::start(move |request| shared.lock().unwrap().answer(request)).await;
        group.world.plc.host(AUTHORITY, &upstream.url());
        let pds = OauthPds::start().await;
        pds.sign_for(&group.bob);
        group.world.plc.host(BOB, &pds.url());
        let app = App::confidential(&group.world.server, "follower").await;
        app.device(&group.world.server, &pds, BOB, json!({})).await;
        let stage = Self { group, authority, host, space, _pds: pds, upstream };
        let body = json!({ "space": stage.space });
        let followed = stage.call(Method::POST, "dev.service.space.follow", Some(body)).await;
        assert_eq!(followed.status, 200, "{}", followed.text);
        stage
    }

    fn set(&self, mode: Mode, text: &'static str) {
        let mut host = self.host.lock().unwrap();
        (host.mode, host.text) = (mode, text);
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        call_at(&self.group.world.server, Some(&self.group.bob), method, path, body).await
    }

    async fn list(&self) -> Answer {
        let path = format!("com.atproto.space.listRecords?space={}", self.space);
        self.call(Method::GET, &path, None).await
    }

    async fn texts(&self) -> Option<Vec<String>> {
        let answer = self.list().await;
        let records = answer.body["records"].as_array()?;
        Some(records.iter().map(|record| record["value"]["text"].as_str().unwrap().to_owned()).collect())
    }

    async fn eventually_reads(&self, expected: &[&str]) {
        let reads = async |_: &_| self.texts().await.is_some_and(|texts| texts == expected);
        self.group.world.server.eventually(&format!("Bob reads {expected:?}"), reads).await;
    }

    /// Waits until the server calls a method of the host once more.
    async fn eventually_calls(&self, method: &str) {
        let calls = || {
            let requests = self.upstream.requests();
            requests.iter().filter(|request| request.path_and_query.contains(method)).count()
        };
        let before = calls();
        let called = async |_: &_| calls() > before;
        self.group.world.server.eventually(&format!("{method} is called"), called).await;
    }
}

async fn a_space_of_an_honest_host_is_copied(world: World) {
    let stage = Stage::of(world, Mode::Honest).await;
    stage.eventually_reads(&["first"]).await;
}

async fn forged_repos_are_not_shown(world: World) {
    let stage = Stage::of(world, Mode::ForgesCommits).await;
    for mode in [Mode::ForgesCommits, Mode::ForgesRecords, Mode::CutsRepos, Mode::OmitsRecords] {
        stage.set(mode, "first");
        stage.eventually_calls("getRepo?").await;
        let texts = stage.texts().await;
        assert!(texts.is_none_or(|texts| texts.is_empty()), "{mode:?}");
    }
    stage.set(Mode::Honest, "first");
    stage.eventually_reads(&["first"]).await;
}

async fn answers_that_are_no_lists_change_nothing(world: World) {
    let stage = Stage::of(world, Mode::Fails).await;
    let answer = stage.list().await;
    assert_eq!(error(&answer), (503, "NotCopied"), "{}", answer.text);
    for mode in [Mode::SendsMalformedLists, Mode::SendsLargeLists, Mode::SendsOddCursors, Mode::Fails] {
        stage.set(mode, "first");
        stage.eventually_calls("listRepos?").await;
        assert_eq!(error(&stage.list().await), (503, "NotCopied"), "{mode:?}");
    }
    stage.set(Mode::Honest, "first");
    stage.eventually_reads(&["first"]).await;
}

async fn a_list_without_an_end_has_a_bound(world: World) {
    let stage = Stage::of(world, Mode::IgnoresCursors).await;
    let many = async |_: &_| stage.host.lock().unwrap().pages > 15;
    stage.group.world.server.eventually("the list is read on", many).await;
    let health = stage.group.world.server.request(Method::GET, "/health", &[], None).await;
    assert_eq!(health.status, 200, "{}", health.text);
}

async fn a_space_that_answers_as_deleted_is_forgotten(world: World) {
    let mut stage = Stage::of(world, Mode::Honest).await;
    stage.eventually_reads(&["first"]).await;
    // The server forgets its credentials.
    stage.group.world.server.kill();
    stage.set(Mode::HasEnded, "first");
    stage.group.world.server.start_again().await;
    stage.eventually_reads(&[]).await;
    let forgotten = async |_: &_| {
        let spaces = stage.call(Method::GET, "com.atproto.space.listSpaces", None).await;
        spaces.body["spaces"] == json!([])
    };
    stage.group.world.server.eventually("the space is not followed", forgotten).await;
}

/// Without the answer of the host the user is not refused: a list without the others' records would look like all.
async fn a_host_that_is_nowhere_refuses_no_user(world: World) {
    let mut stage = Stage::of(world, Mode::Honest).await;
    stage.eventually_reads(&["first"]).await;
    let server = &stage.group.world.server;
    server.upload(query_lexicon("com.example.group"), None).await;
    server.bind("com.example.group", "function handle() return { key = space and space.skey } end").await;
    let group = format!("com.example.group?space={}", stage.space);
    assert_eq!(stage.call(Method::GET, &group, None).await.body, json!({ "key": "main" }));
    // The server forgets its credentials.
    stage.group.world.server.kill();
    stage.set(Mode::IsNowhere, "first");
    stage.group.world.server.start_again().await;
    let failed = stage.list().await;
    assert_eq!(error(&failed), (502, "UpstreamFailure"), "{}", failed.text);
    let failed = stage.call(Method::GET, &group, None).await;
    assert_eq!(error(&failed), (502, "UpstreamFailure"), "a script, for which Bob would be a stranger");
    stage.set(Mode::Honest, "first");
    stage.eventually_reads(&["first"]).await;
}

async fn a_space_that_its_host_ended_is_forgotten(world: World) {
    let stage = Stage::of(world, Mode::Honest).await;
    stage.eventually_reads(&["first"]).await;
    let body = json!({ "space": stage.space });
    let ended = call_at(
        &stage.group.world.server,
        Some(&stage.authority),
        Method::POST,
        "com.atproto.space.notifySpaceDeleted",
        Some(body),
    )
    .await;
    assert_eq!(ended.status, 200, "{}", ended.text);
    let gone = stage.list().await;
    assert_eq!(gone.body["records"], json!([]), "{}", gone.text);
}
