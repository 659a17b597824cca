//! OAuth with a real PDS: third-party apps write to their users' repos, and the records are indexed at once; users log
//! in to the dashboard; repos are linked for scripts.

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::App;
use crate::database::Database;
use crate::index::{add_procedure, add_query, track};
use crate::network::network;
use crate::node::node;
use crate::server::{Server, expect};

const NOTE: &str = "com.example.oauth.note";
const PUT: &str = "com.example.oauth.putNote";
const LIST: &str = "com.example.oauth.listNotes";
const SAVE: &str = "com.example.oauth.saveNotes";
const SCOPES: &str = "atproto transition:generic";

/// A browser that does not follow redirects, so that tests can check them.
#[expect(clippy::disallowed_methods, reason = "tests are clients of the server")]
pub fn browser() -> reqwest::Client {
    let never = reqwest::redirect::Policy::none();
    reqwest::Client::builder().no_proxy().redirect(never).build().unwrap()
}

crate::on_both!(an_app_writes_for_its_users);
async fn an_app_writes_for_its_users(database: Database) {
    let network = network().await;
    let (admin, alice) = (network.account().await, network.account().await);
    let mut server = Server::new(network, database);
    server.start().await;
    let key = server.create_key(&admin.did);
    track(&server, &key, NOTE).await;
    add_query(&server, &key, LIST, NOTE).await;
    add_procedure(&server, &key, PUT, NOTE).await;
    let app = App::register(&server, &key, SCOPES).await;

    // The registered tokens appear to be expired, so the first call renews them. The app keeps using its access token.
    let expired = json!({ "expires_at": "2020-01-01T00:00:00Z" });
    let phone = app.log_in(&server, network, &alice, expired).await;
    let put = |body: Value| phone.request(&server, Method::POST, &format!("/xrpc/{PUT}")).json(&body);
    let list = || phone.request(&server, Method::GET, &format!("/xrpc/{LIST}?did={}", alice.did));
    let created = expect(200, put(json!({ "text": "first" }))).await;
    let uri = created["uri"].as_str().unwrap().to_owned();
    assert_eq!(expect(200, list()).await["records"], json!([{ "$type": NOTE, "text": "first", "uri": uri }]));
    let on_pds = &alice.records(NOTE).await[&uri];
    assert_eq!(
        *on_pds,
        (created["cid"].as_str().unwrap().to_owned(), json!({ "$type": NOTE, "text": "first" }))
    );

    // Updates, before and after a restart.
    expect(200, put(json!({ "uri": uri, "text": "second" }))).await;
    assert_eq!(expect(200, list()).await["records"][0]["text"], "second");
    server.kill();
    server.start().await;
    let put = |body: Value| phone.request(&server, Method::POST, &format!("/xrpc/{PUT}")).json(&body);
    expect(200, put(json!({ "uri": uri, "text": "third" }))).await;
    assert_eq!(alice.records(NOTE).await[&uri].1["text"], "third");

    // Writes that the lexicon or the PDS does not allow fail.
    let wrong = expect(400, put(json!({ "text": 7 }))).await;
    assert_eq!(wrong["error"], "InvalidRequest");
    assert!(wrong["message"].as_str().unwrap().contains("record.text"), "{wrong}");
    let others = format!("at://{}/{NOTE}/x", admin.did);
    expect(403, put(json!({ "uri": others, "text": "mine" }))).await;
    assert_eq!(alice.records(NOTE).await.len(), 1);

    // A blob, and the profile.
    let path = "/xrpc/com.atproto.repo.uploadBlob";
    let upload = phone.request(&server, Method::POST, path).header("content-type", "text/plain");
    let blob = expect(200, upload.body(vec![b'x'; 3 << 20])).await;
    assert_eq!((&blob["blob"]["mimeType"], &blob["blob"]["size"]), (&json!("text/plain"), &json!(3 << 20)));
    let profile = expect(200, phone.request(&server, Method::GET, "/xrpc/app.bsky.actor.getProfile")).await;
    assert_eq!(profile, json!({ "did": alice.did, "handle": alice.handle }));

    // A script writes several records in one commit, and deletes one of them. Its own fields stay out of the repo.
    add_procedure(&server, &key, SAVE, NOTE).await;
    let source = "function handle()
        local a, b = Record(collection, { text = 'a', secretNote = 's' }), Record(collection, { text = 'b' })
        Record.save_all({ a, b })
        local open = Record.load(a._uri, { open = true })
        open.more = {}
        open:save()
        b:delete()
        return { uri = a._uri, count = db.count(collection, caller_did) }
    end";
    let script = json!({ "id": format!("xrpc.procedure:{SAVE}"), "body": source });
    expect(201, server.request(Method::POST, "/admin/scripts").bearer_auth(&key).json(&script)).await;
    let save = phone.request(&server, Method::POST, &format!("/xrpc/{SAVE}")).json(&json!({}));
    let saved = expect(200, save).await;
    assert_eq!(saved["count"], 2, "{saved}");
    let on_pds = alice.records(NOTE).await;
    let a = &on_pds[saved["uri"].as_str().unwrap()].1;
    assert_eq!((on_pds.len(), a), (2, &json!({ "$type": NOTE, "text": "a", "more": {} })));

    // A second device, which logs the first one out.
    let laptop = app.log_in(&server, network, &alice, json!({})).await;
    let devices = format!("/oauth/sessions/{}/devices", alice.did);
    let listed = expect(200, laptop.request(&server, Method::GET, &devices)).await;
    let ids: Vec<&str> = listed.as_array().unwrap().iter().map(|d| d["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [&phone.session, &laptop.session]);
    let delete = laptop.request(&server, Method::DELETE, &format!("{devices}/{}", phone.session));
    assert_eq!(delete.send().await.unwrap().status(), 204);
    let gone = expect(401, phone.request(&server, Method::GET, &format!("/xrpc/{LIST}"))).await;
    assert_eq!(gone["error"], "no DPoP key matching proof thumbprint");
    expect(200, laptop.request(&server, Method::GET, &format!("/xrpc/{LIST}"))).await;

    // Logged out.
    let session = format!("/oauth/sessions/{}", alice.did);
    let known = expect(200, laptop.request(&server, Method::GET, &session)).await;
    assert_eq!(known, json!({ "did": alice.did, "scopes": ["atproto", "transition:generic"] }));
    assert_eq!(laptop.request(&server, Method::DELETE, &session).send().await.unwrap().status(), 204);
    assert_eq!(laptop.request(&server, Method::DELETE, &session).send().await.unwrap().status(), 404);
    expect(401, laptop.request(&server, Method::POST, &format!("/xrpc/{PUT}")).json(&json!({}))).await;
    server.stop().await;
}

crate::on_both!(a_scripted_procedure_fails_as_a_built_in_one);
async fn a_scripted_procedure_fails_as_a_built_in_one(database: Database) {
    let network = network().await;
    let (admin, alice) = (network.account().await, network.account().await);
    let mut server = Server::new(network, database);
    server.start().await;
    let key = server.create_key(&admin.did);
    track(&server, &key, NOTE).await;
    add_procedure(&server, &key, PUT, NOTE).await;
    add_procedure(&server, &key, SAVE, NOTE).await;
    let source = "function handle() return Record(collection, { text = input.text }):save() end";
    let script = json!({ "id": format!("xrpc.procedure:{SAVE}"), "body": source });
    expect(201, server.request(Method::POST, "/admin/scripts").bearer_auth(&key).json(&script)).await;
    let app = App::register(&server, &key, SCOPES).await;
    let body = json!({ "text": "x" });

    // A service token is no proof of a session.
    for procedure in [PUT, SAVE] {
        let token = alice.service_token(&server.did, Some(procedure)).await;
        let call =
            app.request(&server, Method::POST, &format!("/xrpc/{procedure}")).bearer_auth(token).json(&body);
        let refused = expect(401, call).await;
        assert_eq!(refused["error"], "calls to a PDS take a proof of a session: authenticate with DPoP");
    }

    // The account is deleted, and so its grants: the tokens, which seem to have expired, can't be renewed.
    let expired = json!({ "expires_at": "2020-01-01T00:00:00Z" });
    let phone = app.log_in(&server, network, &alice, expired.clone()).await;
    let laptop = app.log_in(&server, network, &alice, expired).await;
    alice.delete_account().await;
    for (device, procedure) in [(phone, PUT), (laptop, SAVE)] {
        let call = device.request(&server, Method::POST, &format!("/xrpc/{procedure}")).json(&body);
        let ended = expect(401, call).await;
        assert_eq!(ended, json!({ "error": "session expired, please re-authenticate" }), "{procedure}");
    }
    let errors = server.request(Method::GET, "/admin/events?event_type=script.error").bearer_auth(&key);
    assert_eq!(
        expect(200, errors).await["events"],
        json!([]),
        "callers' sessions are no errors of the script"
    );
    server.stop().await;
}

crate::on_both!(a_user_logs_in_at_their_pds);
async fn a_user_logs_in_at_their_pds(database: Database) {
    let network = network().await;
    let alice = network.account().await;
    let mut server = Server::new(network, database);
    server.start().await;
    let browser = browser();
    let cookies = |answer: &reqwest::Response| {
        let set = answer.headers().get_all("set-cookie").iter();
        let pairs = set.map(|cookie| cookie.to_str().unwrap().split(';').next().unwrap().to_owned());
        pairs.collect::<Vec<_>>().join("; ")
    };
    let begun =
        browser.get(format!("{}/auth/login?handle={}", server.url, alice.handle)).send().await.unwrap();
    assert_eq!(begun.status(), 200);
    let bound = cookies(&begun);
    let url = begun.json::<Value>().await.unwrap()["url"].as_str().unwrap().to_owned();
    let back = network.consent(&alice, &url).await;
    assert!(back.starts_with(&format!("{}/auth/callback?", server.url)), "{back}");
    let landed = browser.get(&back).header("cookie", bound).send().await.unwrap();
    assert_eq!(
        (landed.status().as_u16(), landed.headers()["location"].to_str().unwrap()),
        (303, "/dashboard/")
    );
    let session = cookies(&landed);

    // The first user to log in is the super user, also after a restart.
    let get = |path: &str| server.request(Method::GET, path).header("cookie", &session);
    assert_eq!(expect(200, get("/admin/lexicons")).await, json!([]));
    server.kill();
    server.start().await;
    let get = |path: &str| server.request(Method::GET, path).header("cookie", &session);
    let me = expect(200, get("/auth/me")).await;
    assert_eq!(
        (&me["did"], &me["is_super"], &me["handle"]),
        (&json!(alice.did), &json!(true), &json!(alice.handle))
    );
    let logout = server.request(Method::POST, "/auth/logout").header("cookie", &session);
    assert_eq!(logout.header("origin", &server.url).send().await.unwrap().status(), 204);
    expect(401, server.request(Method::GET, "/auth/me").header("cookie", &session)).await;
    server.stop().await;
}

crate::on_both!(a_repo_is_linked_for_scripts);
async fn a_repo_is_linked_for_scripts(database: Database) {
    const USE: &str = "com.example.oauth.announce";
    let network = network().await;
    let (admin, alice) = (network.account().await, network.account().await);
    let mut server = Server::new(network, database);
    server.start().await;
    let key = server.create_key(&admin.did);
    track(&server, &key, NOTE).await;
    add_query(&server, &key, USE, NOTE).await;
    let post = |path: String, body: Value| {
        server.request(Method::POST, &format!("/admin/linked-repos{path}")).bearer_auth(&key).json(&body)
    };
    let grant = json!({ "handle": alice.handle, "reason": "to announce", "scripts": [format!("xrpc.query:{USE}")],
        "scopes": format!("repo:{NOTE}?action=create blob:text/*") });
    let grant = expect(200, post(String::new(), grant)).await;
    assert_eq!((&grant["did"], &grant["handle"]), (&json!(alice.did), &json!(alice.handle)));
    let id = grant["id"].as_str().unwrap();
    let link = expect(200, post(format!("/{id}/invite"), json!({}))).await;
    let browser = browser();
    let start = format!("{}&handle={}", link["invite_url"].as_str().unwrap(), alice.handle);
    let to = browser.get(start).send().await.unwrap();
    assert_eq!(to.status(), 303);
    let back = network.consent(&alice, to.headers()["location"].to_str().unwrap()).await;
    let landed = browser.get(&back).send().await.unwrap();
    assert_eq!(landed.headers()["location"].to_str().unwrap(), "/link/result?status=success");

    let script = format!(
        "function handle()
            local repo = linked_repos.get('{}')
            local made = repo:create_record({{ collection = collection, record = {{ text = 'announced' }} }})
            local ok, error = pcall(repo.delete_record, repo, {{ collection = collection, rkey = 'x' }})
            return {{ uri = made.uri, deletes = ok, blob = repo:upload_blob('bytes', 'text/plain').blob }}
        end",
        alice.did
    );
    let script = json!({ "id": format!("xrpc.query:{USE}"), "body": script });
    expect(201, server.request(Method::POST, "/admin/scripts").bearer_auth(&key).json(&script)).await;
    let client = crate::index::add_client(&server, &key).await;
    let call = server.request(Method::GET, &format!("/xrpc/{USE}")).header("x-client-key", client);
    let done = expect(200, call).await;
    assert_eq!((&done["deletes"], &done["blob"]["size"]), (&json!(false), &json!(5)), "{done}");
    let uri = done["uri"].as_str().unwrap();
    assert_eq!(alice.records(NOTE).await[uri].1["text"], "announced");
    server.stop().await;
}

crate::on_both!(an_owner_agrees_in_a_browser);
async fn an_owner_agrees_in_a_browser(database: Database) {
    let network = network().await;
    let (admin, alice) = (network.account().await, network.account().await);
    let mut server = Server::new(network, database);
    server.start().await;
    let key = server.create_key(&admin.did);
    let post = |path: String, body: Value| {
        server.request(Method::POST, &format!("/admin/linked-repos{path}")).bearer_auth(&key).json(&body)
    };
    let grant = json!({ "reason": "to announce", "scopes": format!("repo:{NOTE}") });
    let grant = expect(200, post(String::new(), grant)).await;
    let link = expect(200, post(format!("/{}/invite", grant["id"].as_str().unwrap()), json!({}))).await;
    let input =
        json!({ "link": link["invite_url"], "user": { "handle": alice.handle, "password": alice.password } });
    node("browser.mjs", &input).await;
    let listed = server.request(Method::GET, "/admin/linked-repos").bearer_auth(&key);
    let listed = expect(200, listed).await;
    let grant = &listed["linked_repos"][0];
    assert_eq!((&grant["did"], &grant["status"]), (&json!(alice.did), &json!("active")), "{listed}");
    server.stop().await;
}
