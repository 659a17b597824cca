//! Notices between the hosts of spaces: registrations, deliveries, and notices that arrive.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use belvedere_base::clock::Clock;
use belvedere_protocol::crypto::Algorithm;
use belvedere_standins::jetstream::tid;
use belvedere_standins::recorder::recorder;
use http::Method;
use serde_json::{Value, json};

use super::{CAROL, Group, KIND, error, in_query};
use crate::fixtures::{ALICE, BOB, World};
use crate::support::instance::Answer;
use crate::support::plc::Person;

crate::in_both_worlds!(
    services_receive_the_writes_of_a_space,
    registrations_need_a_membership_and_an_address,
    hosts_of_repos_report_their_writes,
    a_service_that_fails_receives_the_last_state_later,
    a_killed_server_delivers_after_its_restart,
    services_learn_that_a_space_is_deleted,
    the_authority_of_another_host_receives_the_writes_of_our_users,
    an_authority_ends_credentials_and_no_repo_of_our_users,
    a_deleted_account_leaves_its_spaces
);

pub const SERVICE: &str = "did:plc:serviceserviceserviceser";
pub const AUTHORITY: &str = "did:plc:authorityauthorityauthor";
pub const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

/// A service whose answers a test chooses.
pub struct Service {
    pub url: String,
    requests: Arc<Mutex<Vec<String>>>,
    answer: Arc<Mutex<String>>,
}

impl Service {
    pub async fn start() -> Self {
        let answer = Arc::new(Mutex::new(OK.to_owned()));
        let current = Arc::clone(&answer);
        let (address, requests) = recorder(move |_| current.lock().unwrap().clone()).await;
        Self { url: format!("http://{address}"), requests, answer }
    }

    pub fn answers(&self, answer: &str) {
        answer.clone_into(&mut self.answer.lock().unwrap());
    }

    /// The requests with a service token so far. Others read the repos that the service is said to have.
    fn calls(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|request| request.contains("Bearer ")).cloned().collect()
    }

    /// The number of these requests.
    pub fn count(&self) -> usize {
        self.calls().len()
    }

    /// The path with its query, the claims of the token and the body of the request with this number, when it has arrived.
    pub async fn request(&self, group: &Group, number: usize) -> (String, Value, Value) {
        let server = &group.world.server;
        server.eventually("a notice arrives", async |_| self.count() > number).await;
        let text = self.calls().swap_remove(number);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let token = head.split_once("Bearer ").unwrap().1.lines().next().unwrap();
        let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
        let path = head.split(' ').nth(1).unwrap().to_owned();
        (path, serde_json::from_slice(&claims).unwrap(), serde_json::from_str(body).unwrap_or_default())
    }
}

impl Group {
    /// A service, whose address is in its DID document.
    async fn service(&self) -> Service {
        let service = Service::start().await;
        self.world.plc.host(SERVICE, &service.url);
        service
    }

    pub async fn register(&self, person: &Person, space: &str, service: &str) -> Answer {
        self.post(person, "space.registerNotify", json!({ "space": space, "service": service })).await
    }

    /// A new space of Alice's with a registered service.
    pub async fn watched(&self) -> (String, Service) {
        let (space, service) = (self.space("main", json!({})).await, self.service().await);
        let registered = self.register(&self.alice, &space, SERVICE).await;
        assert_eq!(registered.status, 200, "{}", registered.text);
        (space, service)
    }
}

async fn services_receive_the_writes_of_a_space(world: World) {
    let group = Group::exposed(world).await;
    let (space, service) = group.watched().await;
    group.note(&group.alice, &space, "a").await;
    let (path, claims, first) = service.request(&group, 0).await;
    assert_eq!(path, "/xrpc/com.atproto.space.notifyWrite");
    let did = group.world.server.did();
    let (issuer, audience) = (did.as_str(), format!("{SERVICE}#atproto_pds"));
    assert_eq!((&claims["iss"], &claims["aud"]), (&json!(issuer), &json!(audience)));
    assert_eq!(claims["lxm"], "com.atproto.space.notifyWrite");
    let commit = group
        .get(&group.alice, &format!("space.getLatestCommit?space={}&repo={ALICE}", in_query(&space)))
        .await;
    assert_eq!((&first["space"], &first["repo"]), (&json!(space), &json!(ALICE)));
    assert_eq!((&first["rev"], &first["repoRev"]), (&commit.body["rev"], &commit.body["rev"]));
    assert_eq!(first["hash"], commit.body["commit"]["hash"]);
    assert!(first.get("prevSpaceRev").is_none(), "{first}");
    group.note(&group.alice, &space, "b").await;
    let (.., second) = service.request(&group, 1).await;
    assert_eq!(second["prevSpaceRev"], first["spaceRev"]);

    let end = json!({ "space": space, "service": SERVICE });
    let refused = group.post(&group.carol, "space.unregisterNotify", end.clone()).await;
    assert_eq!(error(&refused), (404, "SpaceNotFound"));
    group.join(&space, BOB, true, false).await;
    let refused = group.post(&group.bob, "space.unregisterNotify", end.clone()).await;
    assert_eq!(error(&refused), (403, "NotAuthorized"));
    for removed in [1, 0] {
        let ended = group.post(&group.alice, "space.unregisterNotify", end.clone()).await;
        assert_eq!(ended.body, json!({ "removed": removed }));
    }
    // A service may end its registration, and learns nothing of spaces in which it has none.
    group.register(&group.alice, &space, CAROL).await;
    for (space, removed) in [(&space, 1), (&space, 0), (&space.replace("/main", "/other"), 0)] {
        let end = json!({ "space": space, "service": CAROL });
        let ended = group.post(&group.carol, "space.unregisterNotify", end).await;
        assert_eq!(ended.body, json!({ "removed": removed }), "{}", ended.text);
    }
}

async fn registrations_need_a_membership_and_an_address(world: World) {
    let group = Group::exposed(world).await;
    let (space, service) = (group.space("main", json!({})).await, group.service().await);
    assert_eq!(error(&group.register(&group.carol, &space, SERVICE).await), (404, "SpaceNotFound"));
    let public = json!({ "space": space, "config": { "membership_public": true } });
    assert_eq!(group.post(&group.alice, "simplespace.updateSpace", public).await.status, 200);
    assert_eq!(error(&group.register(&group.carol, &space, SERVICE).await), (403, "NotAuthorized"));
    let private = "did:plc:privateprivateprivatepri";
    group.world.plc.host(private, "http://10.0.0.1");
    for service in ["did:plc:absentabsentabsentabsent", &format!("{SERVICE}#other"), private] {
        let refused = group.register(&group.alice, &space, service).await;
        assert_eq!(error(&refused), (400, "ServiceNotResolvable"), "{service}");
    }
    assert_eq!(error(&group.register(&group.alice, &space, "service").await), (400, "InvalidRequest"));
    // The address that an older client names is ignored.
    let elsewhere = Service::start().await;
    let old = json!({ "space": space, "serviceDid": SERVICE, "endpoint": elsewhere.url });
    let registered = group.post(&group.alice, "space.registerNotify", old).await;
    assert_eq!((registered.status.as_u16(), &registered.body["id"]), (200, &json!(SERVICE)));
    assert!(registered.body["expiresAt"].is_string());
    group.note(&group.alice, &space, "a").await;
    service.request(&group, 0).await;
    assert_eq!(elsewhere.count(), 0);
}

async fn hosts_of_repos_report_their_writes(world: World) {
    let group = Group::exposed(world).await;
    let (space, service) = group.watched().await;
    group.join(&space, BOB, true, true).await;
    let now = Clock::system().now().0 as u64;
    let hash = json!({ "$bytes": "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc" });
    let notice =
        |repo: &str, rev: &str| json!({ "space": space, "repo": repo, "repoRev": rev, "hash": hash });
    let rev = tid(now, 0);
    let send = async |person: &Person, body: Value| group.post(person, "space.notifyWrite", body).await;
    assert_eq!(error(&send(&group.bob, notice(ALICE, &rev)).await), (403, "NotAuthorized"));
    assert_eq!(error(&send(&group.carol, notice(CAROL, &rev)).await), (404, "SpaceNotFound"));
    assert_eq!(error(&send(&group.bob, notice(BOB, "now")).await), (400, "InvalidRequest"));
    let future = tid(now + 6 * 60 * 1_000_000, 0);
    assert_eq!(error(&send(&group.bob, notice(BOB, &future)).await), (400, "FutureRev"));
    let sent = send(&group.bob, notice(BOB, &rev)).await;
    assert_eq!((sent.status.as_u16(), &sent.body), (200, &json!({ "success": true })));
    let (.., forwarded) = service.request(&group, 0).await;
    assert_eq!((&forwarded["repo"], &forwarded["repoRev"]), (&json!(BOB), &json!(rev)));
    assert_eq!(forwarded["hash"], hash);
    // Not newer: accepted, and not forwarded.
    assert_eq!(send(&group.bob, notice(BOB, &rev)).await.status, 200);
    let later = tid(now + 1, 0);
    let old = json!({ "space": space, "repo": BOB, "rev": later, "hash": hash });
    assert_eq!(send(&group.bob, old).await.status, 200);
    let (.., forwarded) = service.request(&group, 1).await;
    assert_eq!(forwarded["repoRev"], later);
    let list = group.get(&group.alice, &format!("space.listRepos?space={}", in_query(&space))).await;
    assert_eq!((&list.body["repos"][0]["did"], &list.body["repos"][0]["rev"]), (&json!(BOB), &json!(later)));
    // A member that may not write.
    group.join(&space, BOB, true, false).await;
    assert_eq!(error(&send(&group.bob, notice(BOB, &tid(now + 2, 0))).await), (403, "NotAuthorized"));
}

async fn a_service_that_fails_receives_the_last_state_later(world: World) {
    let group = Group::exposed(world).await;
    let (space, service) = group.watched().await;
    let elsewhere = Service::start().await;
    let redirect = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {}/xrpc/x\r\ncontent-length: 0\r\n\r\n",
        elsewhere.url
    );
    let faults = [
        "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n",
        &redirect,
        // Closes the connection.
        "",
        // Does not end.
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n(hang)",
    ];
    for (n, fault) in faults.into_iter().enumerate() {
        service.answers(fault);
        if n == 0 {
            group.note(&group.alice, &space, "first").await;
        }
        let before = service.count();
        group.world.server.eventually("an attempt", async |_| service.count() > before).await;
    }
    let written = group.note(&group.alice, &space, "last").await;
    assert_eq!(written.status, 200, "{}", written.text);
    let commit = group
        .get(&group.alice, &format!("space.getLatestCommit?space={}&repo={ALICE}", in_query(&space)))
        .await;
    service.answers(OK);
    let before = service.count();
    let (.., notice) = service.request(&group, before).await;
    assert_eq!(notice["rev"], commit.body["rev"], "only the last state is sent");
    group.note(&group.alice, &space, "next").await;
    let (.., next) = service.request(&group, before + 1).await;
    assert_eq!(next["prevSpaceRev"], notice["spaceRev"], "nothing was sent twice");
    assert_eq!(elsewhere.count(), 0, "redirects are not followed");
}

async fn a_killed_server_delivers_after_its_restart(world: World) {
    let mut group = Group::exposed(world).await;
    let (space, service) = group.watched().await;
    service.answers("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n");
    group.note(&group.alice, &space, "a").await;
    service.request(&group, 0).await;
    group.world.server.kill();
    service.answers(OK);
    let before = service.count();
    group.world.server.start_again().await;
    let (.., notice) = service.request(&group, before).await;
    assert_eq!(notice["repo"], ALICE);
}

async fn services_learn_that_a_space_is_deleted(world: World) {
    let group = Group::exposed(world).await;
    let (space, service) = group.watched().await;
    let deleted = group.post(&group.alice, "simplespace.deleteSpace", json!({ "space": space })).await;
    assert_eq!(deleted.status, 200, "{}", deleted.text);
    let (path, claims, body) = service.request(&group, 0).await;
    assert_eq!(path, "/xrpc/com.atproto.space.notifySpaceDeleted");
    assert_eq!(claims["lxm"], "com.atproto.space.notifySpaceDeleted");
    assert_eq!(body, json!({ "space": space }));
    // Nothing comes before the notice of a later write in another space.
    let other = group.space("other", json!({})).await;
    assert_eq!(group.register(&group.alice, &other, SERVICE).await.status, 200);
    group.note(&group.alice, &other, "a").await;
    let (.., body) = service.request(&group, 1).await;
    assert_eq!(body["space"], other);
}

async fn the_authority_of_another_host_receives_the_writes_of_our_users(world: World) {
    let group = Group::exposed(world).await;
    let authority = Service::start().await;
    group.world.plc.host(AUTHORITY, &authority.url);
    let space = format!("at://{AUTHORITY}/space/{KIND}/main");
    let written = group.note(&group.alice, &space, "a").await;
    assert_eq!(written.status, 200, "{}", written.text);
    let (path, claims, body) = authority.request(&group, 0).await;
    assert_eq!(path, "/xrpc/com.atproto.space.notifyWrite");
    assert_eq!(claims["aud"], format!("{AUTHORITY}#atproto_space_host"));
    assert_eq!((&body["space"], &body["repo"]), (&json!(space), &json!(ALICE)));
    assert!(body.get("spaceRev").is_none(), "{body}");
    // It does not accept the author as a writer. That is final.
    authority.answers("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
    group.note(&group.alice, &space, "b").await;
    authority.request(&group, 1).await;
    authority.answers(OK);
    group.note(&group.alice, &space, "c").await;
    let (.., after) = authority.request(&group, 2).await;
    let commit = group.get(&group.alice, &format!("space.getLatestCommit?space={space}&repo={ALICE}")).await;
    assert_eq!(after["rev"], commit.body["rev"], "not the refused one again");
}

async fn an_authority_ends_credentials_and_no_repo_of_our_users(world: World) {
    let group = Group::exposed(world).await;
    let authority = group.world.plc.person(AUTHORITY, Algorithm::Es256k);
    let space = format!("at://{AUTHORITY}/space/{KIND}/main");
    let revoke = async |person: &Person, jtis: usize| {
        let jtis: Vec<String> = (0..jtis).map(|n| n.to_string()).collect();
        let body = json!({ "space": space, "credentials": jtis });
        group.post(person, "space.notifyCredentialRevoked", body).await
    };
    assert_eq!(revoke(&authority, 1).await.status, 200, "a space that is not known here");
    group.note(&group.alice, &space, "a").await;
    for (person, jtis, expected) in [
        (&group.alice, 1, (403, "Forbidden")),
        (&authority, 0, (400, "InvalidRequest")),
        (&authority, 101, (400, "InvalidRequest")),
    ] {
        assert_eq!(error(&revoke(person, jtis).await), expected);
    }
    for _ in 0..2 {
        assert_eq!(revoke(&authority, 100).await.status, 200);
    }
    let hosted = json!({ "space": group.space("own", json!({})).await });
    let refused = group.post(&authority, "space.notifySpaceDeleted", hosted).await;
    assert_eq!(error(&refused), (403, "Forbidden"));
    let delete = json!({ "space": space });
    let refused = group.post(&group.alice, "space.notifySpaceDeleted", delete.clone()).await;
    assert_eq!(error(&refused), (403, "Forbidden"));
    for _ in 0..2 {
        assert_eq!(group.post(&authority, "space.notifySpaceDeleted", delete.clone()).await.status, 200);
    }
    // No other server has the repos of our users: an authority can't delete them.
    let path = format!("space.getRecord?space={space}&repo={ALICE}&collection=com.example.note&rkey=a");
    let kept = group.get(&group.alice, &path).await;
    assert_eq!((kept.status.as_u16(), &kept.body["value"]["text"]), (200, &json!("a")), "{}", kept.text);
}

async fn a_deleted_account_leaves_its_spaces(world: World) {
    let mut group = Group::exposed(world.with_notes().await).await;
    let space = group.space("main", json!({})).await;
    group.join(&space, BOB, true, true).await;
    group.note(&group.bob, &space, "b").await;
    let (query, record) = (in_query(&space), format!("repo={BOB}&collection=com.example.note&rkey=b"));
    let members = format!("simplespace.listMembers?space={query}");
    let path = format!("space.getRecord?space={query}&{record}");
    assert_eq!(group.get(&group.alice, &path).await.status, 200);
    group.world.account(BOB, Some("deleted"));
    let server = &group.world.server;
    let status = async |path: &str| group.get(&group.alice, path).await.status;
    server.eventually("the account is hidden", async |_| status(&path).await != 200).await;
    // The sweep runs when a server starts.
    group.world.server.kill();
    group.world.server.start_again().await;
    let is_gone = async |_: &_| {
        let members = group.admin(Method::GET, &space, "/members", None).await;
        members.body["members"].as_array().is_some_and(|members| members.len() == 1)
    };
    group.world.server.eventually("the account is gone", is_gone).await;
    assert_eq!(error(&group.get(&group.alice, &path).await), (404, "RepoNotFound"));
    assert_eq!(group.get(&group.alice, &members).await.body["members"].as_array().unwrap().len(), 1);
}
