//! A session belongs to the PDS at which it was made: it ends when the account has moved to another.

use std::sync::{Arc, Mutex, PoisonError};

use belvedere_base::clock::{Clock, Timestamp};
use belvedere_instance::pds::{Agent, PdsError, PdsPools};
use belvedere_protocol::atproto::Did;
use belvedere_standins::database::Database;
use belvedere_standins::jetstream::Frame;
use belvedere_standins::upstream::{Upstream, respond};
use belvedere_storage::store::Db;
use belvedere_web::fair_share::Tenant;
use http::Method;
use serde_json::{Value, json};

use super::device::{App, Device, pds};
use super::renewal::{Host, host, register, register_as};
use crate::fixtures::{ALICE, NOTES, World};
use crate::support::instance::{Answer, procedure_lexicon};
use crate::support::oauth_pds::OauthPds;

const PUT: &str = "com.example.putNote";
const SCRIPTED: &str = "com.example.scripted";
const MOVED: &str = "the account has moved to another PDS: log in again";

/// A script that writes in the way that its input names.
const SCRIPT: &str = "function handle()
    if input.way == 'save' then return Record(collection, { text = 'a' }):save() end
    if input.way == 'save_all' then
        return Record.save_all({ Record(collection, { text = 'a' }), Record(collection, { text = 'b' }) })
    end
    return Record.load('at://' .. caller_did .. '/com.example.note/old'):delete()
end";

async fn post(world: &World, device: &Device, method: &str, headers: &[(&str, &str)], body: Value) -> Answer {
    let path = format!("/xrpc/{method}");
    let (token, proof) =
        (format!("DPoP {}", device.token), device.proof(&world.server, &Method::POST, &path));
    let mut all = vec![("x-client-key", &*device.client_key), ("authorization", &*token), ("dpop", &*proof)];
    all.extend(headers);
    world.server.request(Method::POST, &path, &all, Some(body.to_string())).await
}

/// A way to use a session: method, headers, body.
type Use<'a> = (&'static str, Vec<(&'static str, &'a str)>, Value);

fn uses(service: &str) -> Vec<Use<'_>> {
    let record = json!({ "repo": ALICE, "collection": NOTES, "record": { "$type": NOTES, "text": "a" } });
    vec![
        (PUT, vec![], json!({ "text": "a" })),
        (SCRIPTED, vec![], json!({ "way": "save" })),
        (SCRIPTED, vec![], json!({ "way": "save_all" })),
        (SCRIPTED, vec![], json!({ "way": "delete" })),
        ("com.atproto.repo.createRecord", vec![], record),
        ("com.atproto.repo.uploadBlob", vec![("content-type", "image/png")], json!("bytes")),
        ("com.example.elsewhere", vec![("atproto-proxy", service)], json!({})),
    ]
}

crate::in_both_worlds!(
    every_use_of_a_session_ends_after_a_move,
    an_identity_event_ends_the_sessions_of_a_moved_account
);

/// The server does not see the move: it is found in the DID document, which is read before the call.
async fn every_use_of_a_session_ends_after_a_move(world: World) {
    let mut world = world.with_notes().await;
    for nsid in [PUT, SCRIPTED] {
        world.server.upload(procedure_lexicon(nsid), Some(NOTES)).await;
    }
    world.server.bind_to(&format!("xrpc.procedure:{SCRIPTED}"), SCRIPT).await;
    world.note(ALICE, "old", json!({ "text": "old" })).await;
    let first = pds(&world, &[ALICE]).await;
    let scopes = "atproto repo:com.example.note blob:*/* rpc:com.example.elsewhere?aud=*";
    let app = App::with(
        &world.server,
        json!({ "name": "one", "client_id_url": "https://one.example/client.json",
            "client_uri": "https://one.example", "redirect_uris": [], "scopes": scopes }),
    )
    .await;
    let service = "did:plc:serviceserviceservicese#svc";
    let mut devices = Vec::new();
    for _ in uses(service) {
        devices.push(app.device(&world.server, &first, ALICE, json!({ "scopes": scopes })).await);
    }
    let second = pds(&world, &[ALICE]).await;
    // Nothing is cached after a restart.
    world.server.stop();
    world.server.start_again().await;
    let called = first.requests("/xrpc").len();
    for (device, (method, headers, body)) in devices.iter().zip(uses(service)) {
        let refused = post(&world, device, method, &headers, body.clone()).await;
        assert_eq!((refused.status.as_u16(), refused.error()), (401, MOVED), "{method} {body}");
        let after = post(&world, device, method, &headers, body.clone()).await;
        assert_eq!(after.status, 401, "{method} {body}: the session is gone");
    }
    assert_eq!(
        (first.requests("/xrpc").len(), second.requests("/xrpc").len()),
        (called, 0),
        "nothing was sent"
    );
    assert_eq!(world.server.records().await, 1, "nothing was indexed, nothing was deleted");
    // The old authorization server revokes the tokens, and the user logs in at the new PDS.
    world
        .server
        .eventually("the sessions are revoked", async |_| {
            first.requests("/oauth/revoke").len() >= devices.len()
        })
        .await;
    let again = app.device(&world.server, &second, ALICE, json!({ "scopes": scopes })).await;
    assert_eq!(post(&world, &again, PUT, &[], json!({ "text": "a" })).await.status, 200);
    assert_eq!(world.server.records().await, 2);
}

async fn an_identity_event_ends_the_sessions_of_a_moved_account(world: World) {
    let mut world = world.with_notes().await;
    let first = pds(&world, &[ALICE]).await;
    let app = App::confidential(&world.server, "one").await;
    let device = app.device(&world.server, &first, ALICE, json!({})).await;
    let path = format!("/oauth/sessions/{ALICE}");
    let status = async |server: &crate::support::instance::Instance| {
        device.request(server, Method::GET, &path, None).await.status.as_u16()
    };
    // An event without a move ends nothing: when the note after it is indexed, the event was read.
    world.push(|at, _| Frame::identity(at, ALICE, "alice.example"));
    let uri = world.note(ALICE, "after", json!({ "text": "a" })).await;
    world.wait_for(&uri, true).await;
    assert_eq!(status(&world.server).await, 200);
    let _second = pds(&world, &[ALICE]).await;
    world.push(|at, _| Frame::identity(at, ALICE, "alice.example"));
    world.server.eventually("the session is gone", async |server| status(server).await == 401).await;
    world.server.eventually("it is revoked", async |_| !first.requests("/oauth/revoke").is_empty()).await;
}

/// A directory whose answer for Alice a test sets.
struct Directory {
    upstream: Upstream,
    answer: Arc<Mutex<(u16, Value)>>,
}

impl Directory {
    async fn start() -> Self {
        let answer = Arc::new(Mutex::new((404, json!({}))));
        let given = Arc::clone(&answer);
        let upstream = Upstream::start(move |_| {
            let (status, body) = given.lock().unwrap_or_else(PoisonError::into_inner).clone();
            respond(status, "application/json", body.to_string())
        })
        .await;
        Self { upstream, answer }
    }

    fn names(&self, pds: &OauthPds) {
        self.answers(
            200,
            json!({ "id": ALICE, "service": [{ "id": "#atproto_pds", "type": "AtprotoPersonalDataServer",
                "serviceEndpoint": pds.url() }] }),
        );
    }

    fn answers(&self, status: u16, body: Value) {
        *self.answer.lock().unwrap() = (status, body);
    }

    fn requests(&self) -> usize {
        self.upstream.requests().len()
    }
}

/// Sessions of one host, whose clock stands still until it is set.
struct Scene {
    db: Db,
    clock: Clock,
    directory: Directory,
    host: Host,
    _database: Database,
}

impl Scene {
    async fn start(database: Database) -> Self {
        let db = Db::open(&database.url, 4).await.unwrap();
        db.migrate().await.unwrap();
        let (clock, directory) = (Clock::fixed(Timestamp(1_000_000)), Directory::start().await);
        let host = host(&db, &directory.upstream.url(), &clock);
        Self { db, clock, directory, host, _database: database }
    }

    async fn call(&self, id: &str) -> Result<(), PdsError> {
        let Host(vault, net) = &self.host;
        let Some(session) = vault.by_id(id).await.unwrap() else { return Err(PdsError::Ended) };
        let (places, tenant) = (PdsPools::default(), Tenant::Instance);
        Agent::new(net, &session, &places, &tenant).query("com.atproto.server.getSession").await.map(drop)
    }

    fn later(&self, seconds: i64) {
        self.clock.set(self.clock.now().plus_seconds(seconds));
    }
}

async fn documents_are_read_once_a_minute(database: Database) {
    let scene = Scene::start(database).await;
    let (first, second) = (OauthPds::start().await, OauthPds::start().await);
    scene.directory.names(&first);
    let id = register(&scene.db, &scene.host.0, &first, 1).await;
    for _ in 0..3 {
        scene.call(&id).await.unwrap();
    }
    assert_eq!(scene.directory.requests(), 1);

    // The directory fails: the last document counts, and the directory is not asked for each call.
    scene.later(60);
    scene.directory.answers(503, json!({}));
    for _ in 0..3 {
        scene.call(&id).await.unwrap();
    }
    assert_eq!(scene.directory.requests(), 2);

    // An account without a document, or without a PDS, is not one that has moved: the session stays.
    for (status, body) in
        [(404, json!({})), (410, json!({})), (200, json!({ "id": ALICE })), (200, json!([]))]
    {
        scene.later(60);
        scene.directory.answers(status, body.clone());
        let asked = scene.directory.requests();
        for _ in 0..3 {
            let refused = scene.call(&id).await;
            assert!(matches!(refused, Err(PdsError::Unresolved(_))), "{status} {body}: {refused:?}");
        }
        assert_eq!(scene.directory.requests(), asked + 1, "{status} {body}: one look-up a minute");
    }
    scene.later(60);
    scene.directory.answers(503, json!({}));
    let refused = scene.call(&id).await;
    assert!(matches!(refused, Err(PdsError::Unresolved(_))), "no document is known: {refused:?}");

    scene.later(60);
    scene.directory.names(&first);
    scene.call(&id).await.unwrap();
    scene.directory.names(&second);
    scene.later(59);
    scene.call(&id).await.unwrap();
    let called = first.requests("/xrpc").len();
    scene.later(1);
    assert!(matches!(scene.call(&id).await, Err(PdsError::Moved)));
    assert!(matches!(scene.call(&id).await, Err(PdsError::Ended)), "it is deleted");
    assert_eq!(first.requests("/xrpc").len(), called, "nothing was sent");
}

/// Another host has cached the document from before the move when the user logs in at the new PDS.
async fn a_document_older_than_the_session_does_not_end_it(database: Database) {
    let scene = Scene::start(database).await;
    let (first, second) = (OauthPds::start().await, OauthPds::start().await);
    scene.directory.names(&first);
    let old = register(&scene.db, &scene.host.0, &first, 1).await;
    scene.call(&old).await.unwrap();
    scene.directory.names(&second);
    let new = register(&scene.db, &scene.host.0, &second, 2).await;
    scene.call(&new).await.unwrap();
    assert!(matches!(scene.call(&old).await, Err(PdsError::Moved)));
    scene.call(&new).await.unwrap();
}

async fn a_failing_database_is_no_failure_of_the_pds(database: Database) {
    let scene = Scene::start(database).await;
    let (first, second) = (OauthPds::start().await, OauthPds::start().await);
    scene.directory.names(&first);
    let id = register(&scene.db, &scene.host.0, &first, 1).await;
    let session = scene.host.0.by_id(&id).await.unwrap().unwrap();
    scene.directory.names(&second);
    scene.later(60);
    scene.db.close().await;
    let (places, tenant) = (PdsPools::default(), Tenant::Instance);
    let agent = Agent::new(&scene.host.1, &session, &places, &tenant);
    let failed = agent.query("com.atproto.server.getSession").await;
    assert!(matches!(failed, Err(PdsError::Store(_))), "{failed:?}");
}

/// Many sessions of accounts whose host does not answer are checked beside those of others.
async fn one_slow_host_does_not_delay_the_checks_of_others(database: Database) {
    let scene = Scene::start(database).await;
    let (first, second) = (OauthPds::start().await, OauthPds::start().await);
    scene.directory.names(&first);
    let slow = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = format!("did:web:127.0.0.1%3A{}", slow.local_addr().unwrap().port());
    let stalled = register_as(&scene.db, &scene.host.0, &first, &host, 1).await;
    let moved = register(&scene.db, &scene.host.0, &first, 2).await;
    scene.directory.names(&second);
    let dids = [&*host, ALICE].map(|did| Did::try_from(did).unwrap());
    let vault = scene.host.0.clone();
    let checks = tokio::spawn(async move { vault.check_accounts(&dids).await });
    let ended = async {
        while scene.host.0.by_id(&moved).await.unwrap().is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(4), ended)
        .await
        .expect("it does not wait for the slow host");
    assert!(scene.host.0.by_id(&stalled).await.unwrap().is_some());
    checks.abort();
}

macro_rules! on_both {
    ($($name:ident)*) => { $(mod $name {
        use super::Database;

        #[tokio::test]
        async fn sqlite() {
            super::$name(Database::sqlite()).await;
        }

        #[tokio::test]
        async fn postgres() {
            super::$name(Database::postgres().await).await;
        }
    })* };
}

on_both! {
    documents_are_read_once_a_minute
    a_document_older_than_the_session_does_not_end_it
    a_failing_database_is_no_failure_of_the_pds
    one_slow_host_does_not_delay_the_checks_of_others
}
