//! Authentication and authorization: admin keys, service tokens, API clients, permissions, rate limits.

use belvedere_protocol::crypto::Algorithm;
use belvedere_standins::database::{new_sqlite_url, sqlite_url};
use belvedere_standins::postgres;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::instance::{Answer, Instance, procedure_lexicon, query_lexicon};
use crate::support::plc::{Person, Plc};

const QUERY: &str = "com.example.query";
const PROCEDURE: &str = "com.example.procedure";

fn audience(server: &Instance) -> String {
    format!("did:web:127.0.0.1%3A{}", server.address.port())
}

async fn bearer(server: &Instance, method: Method, path: &str, token: &str) -> Answer {
    server.request(method, path, &[("authorization", &format!("Bearer {token}"))], None).await
}

fn header(answer: &Answer, name: &str) -> i64 {
    let value = answer.headers.get(name).unwrap_or_else(|| panic!("no {name}: {}", answer.text));
    value.to_str().unwrap().parse().unwrap()
}

async fn sqlite_server(more: &[(&'static str, &str)]) -> (Instance, tempfile::TempDir) {
    let (url, directory) = sqlite_url();
    (Instance::start_with(&url, "none", more).await, directory)
}

#[tokio::test]
async fn admin_routes_require_a_user() {
    let (server, _directory) = sqlite_server(&[]).await;
    let key = server.admin_key.clone();
    for authorization in [
        None,
        Some("Basic dTpw".to_owned()),
        Some("Bearer bva_00000000000000000000000000000000".to_owned()),
        Some("Bearer not.a.token".to_owned()),
        Some("Bearer".to_owned()),
        Some(format!("DPoP {key}")),
        Some(format!("Bearer {key}x")),
    ] {
        let headers: Vec<_> = authorization.iter().map(|value| ("authorization", value.as_str())).collect();
        let answer = server.request(Method::GET, "/admin/stats", &headers, None).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{authorization:?}");
        assert!(!answer.error().is_empty());
    }
    // No admin route may be open to anonymous callers.
    for path in [
        "lexicons",
        "records?collection=a.b.c",
        "records/collections",
        "stats",
        "events",
        "scripts",
        "scripts/x",
        "api-keys",
        "permissions",
        "api-clients",
        "api-clients/x",
        "lexicons/x",
    ] {
        let answer = server.request(Method::GET, &format!("/admin/{path}"), &[], None).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path}");
    }
}

#[tokio::test]
async fn a_missing_permission_is_a_403_and_an_event() {
    let (server, _directory) = sqlite_server(&[]).await;
    let key = server.create_key(&["--did", "did:plc:viewerviewerviewerviewer", "--permissions", "viewer"]);
    assert_eq!(bearer(&server, Method::GET, "/admin/stats", &key).await.status, StatusCode::OK);
    let answer = bearer(&server, Method::DELETE, "/admin/lexicons/com.example.x", &key).await;
    assert_eq!((answer.status, answer.error()), (StatusCode::FORBIDDEN, "insufficient permissions"));
    assert!(
        answer.body["message"].as_str().is_some_and(|text| text.starts_with("this needs ")),
        "{}",
        answer.text
    );
    // The route requires two permissions; one of them is not enough.
    let key =
        server.create_key(&["--did", "did:plc:halfhalfhalfhalfhalfhalf", "--permissions", "records:delete"]);
    let path = "/admin/records/collection?collection=com.example.note";
    assert_eq!(bearer(&server, Method::DELETE, path, &key).await.status, StatusCode::FORBIDDEN);

    let answer = server.admin(Method::GET, "/admin/events?event_type=auth.permission_denied", None).await;
    let denied = &answer.body["events"][1];
    assert_eq!(denied["actor_did"], "did:plc:viewerviewerviewerviewer", "{}", answer.text);
    assert_eq!(denied["detail"]["required_permission"], "lexicons:delete");
    assert_eq!(answer.body["events"][0]["detail"]["required_permission"], "records:delete-collection");
}

#[tokio::test]
async fn keys_of_the_command_line_have_only_the_given_permissions() {
    let (server, _directory) = sqlite_server(&[]).await;
    let key = server.create_key(&[
        "--did",
        "did:plc:narrownarrownarrownarrow",
        "--permissions",
        "stats:read,events:read",
    ]);
    assert_eq!(bearer(&server, Method::GET, "/admin/events", &key).await.status, StatusCode::OK);
    assert_eq!(bearer(&server, Method::GET, "/admin/lexicons", &key).await.status, StatusCode::FORBIDDEN);
    // A key lists only the keys of its own user.
    let answer = server.admin(Method::GET, "/admin/api-keys", None).await;
    assert_eq!(answer.body.as_array().map(Vec::len), Some(1), "only one's own: {}", answer.text);
}

/// Two callers reach a server without users at the same time: one becomes the super user, the other is refused.
async fn bootstrap(url: &str) {
    let plc = Plc::start().await;
    let server = Instance::start_unclaimed(url, "none", &[("PLC_URL", &plc.url())]).await;
    let people = [plc.person("did:plc:one", Algorithm::Es256), plc.person("did:plc:two", Algorithm::Es256k)];
    let call = async |person: &Person| {
        bearer(&server, Method::GET, "/admin/permissions", &person.token(&audience(&server), json!({}))).await
    };
    let (one, two) = tokio::join!(call(&people[0]), call(&people[1]));
    let mut statuses = [one.status.as_u16(), two.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 403], "{} {}", one.text, two.text);
    let (first, second) =
        if one.status == StatusCode::OK { (&people[0], &people[1]) } else { (&people[1], &people[0]) };
    let answer = call(second).await;
    assert_eq!((answer.status, answer.error()), (StatusCode::FORBIDDEN, "forbidden"));
    let token = first.token(&audience(&server), json!({}));
    let events = bearer(&server, Method::GET, "/admin/events?event_type=user.bootstrapped", &token).await;
    assert_eq!(events.body["events"][0]["subject"], first.did.as_str(), "{}", events.text);
    assert_eq!(events.body["events"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_caller_becomes_the_super_user_on_sqlite() {
    let (url, _directory) = new_sqlite_url();
    bootstrap(&url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_caller_becomes_the_super_user_on_postgres() {
    bootstrap(&postgres::create_new_database().await).await;
}

#[tokio::test]
async fn service_tokens_are_checked() {
    let plc = Plc::start().await;
    let more = [("PLC_URL", &*plc.url()), ("DEFAULT_RATE_LIMIT_CAPACITY", "100")];
    let (server, _directory) = sqlite_server(&more).await;
    server.upload(query_lexicon(QUERY), None).await;
    let person = plc.person("did:plc:personpersonpersonperson", Algorithm::Es256k);
    let did = audience(&server);
    let path = format!("/xrpc/{QUERY}");
    let call = async |token: &str| bearer(&server, Method::GET, &path, token).await;

    // No client key is needed, and the DID has a separate rate-limit bucket.
    let answer = call(&person.token(&did, json!({ "lxm": QUERY }))).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    assert_eq!(header(&answer, "ratelimit-limit"), 100);
    assert_eq!(call(&person.token(&format!("{did}#bsky_appview"), json!({}))).await.status, StatusCode::OK);

    let token = person.token(&did, json!({}));
    assert_eq!(call(&token).await.status, StatusCode::OK);
    assert_eq!(call(&token).await.status, StatusCode::UNAUTHORIZED, "used before");

    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let stranger = plc.person("did:plc:stranger", Algorithm::Es256k);
    for (what, token) in [
        ("expired", person.token(&did, json!({ "exp": now }))),
        ("an hour and more", person.token(&did, json!({ "exp": now + 3700 }))),
        ("another audience", person.token("did:web:elsewhere.example", json!({}))),
        ("another method", person.token(&did, json!({ "lxm": "com.example.other" }))),
        ("another's name", stranger.token(&did, json!({ "iss": person.did }))),
        ("nobody's name", person.token(&did, json!({ "iss": "did:plc:nobody" }))),
        ("no DID", person.token(&did, json!({ "iss": "alice.example" }))),
        ("cut off", person.token(&did, json!({}))[..80].to_owned()),
    ] {
        let answer = call(&token).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{what}: {}", answer.text);
    }
    // A valid token of a DID that is not a user is refused on admin routes.
    let answer = bearer(&server, Method::GET, "/admin/stats", &person.token(&did, json!({}))).await;
    assert_eq!((answer.status, answer.error()), (StatusCode::FORBIDDEN, "forbidden"));
    // So is a token for one method (lxm), even of a user.
    server.create_key(&["--did", &person.did, "--permissions", "full_access"]);
    let bound = person.token(&did, json!({ "lxm": QUERY }));
    let answer = bearer(&server, Method::GET, "/admin/stats", &bound).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    let free = person.token(&did, json!({}));
    assert_eq!(bearer(&server, Method::GET, "/admin/stats", &free).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_token_for_one_method_is_refused_on_others() {
    const DO: &str = "com.example.do";
    let plc = Plc::start().await;
    let (server, _directory) = sqlite_server(&[("PLC_URL", &*plc.url())]).await;
    server.upload(procedure_lexicon(DO), None).await;
    server.upload(procedure_lexicon("com.example.other"), None).await;
    server
        .bind_to("xrpc.procedure:com.example.other", "function handle() return { did = caller_did } end")
        .await;
    let person = plc.person("did:plc:personpersonpersonperson", Algorithm::Es256k);
    let (did, path) = (audience(&server), format!("/xrpc/{DO}"));
    let call = async |change: Value| bearer(&server, Method::POST, &path, &person.token(&did, change)).await;

    let named = "function handle() return json.decode(xrpc.procedure('com.example.other').body) end";
    server.bind_to(&format!("xrpc.procedure:{DO}"), named).await;
    let answer = call(json!({ "lxm": DO })).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{}", answer.text);
    assert_eq!(call(json!({})).await.body["did"], person.did.as_str(), "a token for all methods");

    let built = "function handle() local ok, e = pcall(xrpc.procedure, 'com.example.' .. 'other') \
        return { ok = ok, code = not ok and e.code } end";
    server.bind_to(&format!("xrpc.procedure:{DO}"), built).await;
    assert_eq!(call(json!({ "lxm": DO })).await.body, json!({ "ok": false, "code": "forbidden" }));
    assert_eq!(call(json!({})).await.body["ok"], json!(true));
}

#[tokio::test]
async fn xrpc_requires_a_client() {
    let (server, _directory) = sqlite_server(&[]).await;
    server.upload(query_lexicon(QUERY), None).await;
    let path = format!("/xrpc/{QUERY}");
    let get =
        async |path: &str, headers: &[(&str, &str)]| server.request(Method::GET, path, headers, None).await;
    let answer = get(&path, &[]).await;
    assert_eq!((answer.status, answer.error()), (StatusCode::UNAUTHORIZED, "Missing client identification"));
    let answer = get(&path, &[("x-client-key", "bvc_unknown")]).await;
    assert_eq!((answer.status, answer.error()), (StatusCode::UNAUTHORIZED, "Invalid client"));
    let key = server.client_key.as_str();
    assert_eq!(get(&format!("{path}?client_key={key}"), &[]).await.status, StatusCode::OK);
    // A wrong Origin or secret is only logged.
    let odd = [("x-client-key", key), ("origin", "https://evil.example"), ("x-client-secret", "wrong")];
    assert_eq!(get(&path, &odd).await.status, StatusCode::OK);

    for authorization in
        [format!("Bearer {}", server.admin_key), "Basic dTpw".to_owned(), "DPoP x".to_owned()]
    {
        let headers = [("x-client-key", key), ("authorization", authorization.as_str())];
        assert_eq!(get(&path, &headers).await.status, StatusCode::UNAUTHORIZED, "{authorization}");
    }
    let answer = get("/xrpc/com.example.unknown", &[("x-client-key", key)]).await;
    assert_eq!((answer.status, answer.error()), (StatusCode::NOT_FOUND, "method not found"));

    let clients = server.admin(Method::GET, "/admin/api-clients", None).await;
    let client = format!("/admin/api-clients/{}", clients.body[0]["id"].as_str().unwrap());
    let off = json!({ "is_active": false });
    assert_eq!(server.admin(Method::PUT, &client, Some(&off)).await.status, StatusCode::NO_CONTENT);
    let answer = get(&path, &[("x-client-key", key)]).await;
    assert_eq!((answer.status, answer.error()), (StatusCode::UNAUTHORIZED, "Invalid client"));
}

#[tokio::test]
async fn calls_are_charged_to_the_clients_bucket() {
    let limits = [("DEFAULT_RATE_LIMIT_CAPACITY", "10"), ("DEFAULT_RATE_LIMIT_REFILL_RATE", "0.01")];
    let (server, _directory) = sqlite_server(&limits).await;
    let expensive = json!({ "lexicon_json": query_lexicon(QUERY), "token_cost": 4 });
    assert_eq!(server.admin(Method::POST, "/admin/lexicons", Some(&expensive)).await.status, 201);
    server.upload(procedure_lexicon(PROCEDURE), None).await;

    let answer = server.xrpc(QUERY).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!((header(&answer, "ratelimit-limit"), header(&answer, "ratelimit-remaining")), (10, 6));
    // Errors are charged too: an unknown method, and a procedure without a user.
    assert_eq!(header(&server.xrpc("com.example.unknown").await, "ratelimit-remaining"), 5);
    let key = server.client_key.clone();
    let post = async |key: &str| {
        let headers = [("x-client-key", key)];
        server.request(Method::POST, &format!("/xrpc/{PROCEDURE}"), &headers, Some("{}".to_owned())).await
    };
    let answer = post(&key).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert_eq!(header(&answer, "ratelimit-remaining"), 4);
    assert_eq!(header(&server.xrpc(QUERY).await, "ratelimit-remaining"), 0);

    let answer = server.xrpc(QUERY).await;
    assert_eq!((answer.status, answer.error()), (StatusCode::TOO_MANY_REQUESTS, "RateLimited"));
    assert_eq!(answer.body["message"], "Too many requests");
    assert_eq!(header(&answer, "ratelimit-remaining"), 0);
    assert!(header(&answer, "retry-after") > 300, "4 tokens at 0.01 a second");
    assert!(header(&answer, "ratelimit-reset") > 1_700_000_000);
    assert_eq!(post(&key).await.status, StatusCode::TOO_MANY_REQUESTS, "before the 401");

    // Another client has its own bucket. Capacity and refill rate fall back to the default independently.
    let client = json!({ "name": "other", "client_id_url": "https://o.example/c.json", "client_uri": "https://o.example",
        "redirect_uris": [], "rate_limit_capacity": 5 });
    let made = server.admin(Method::POST, "/admin/api-clients", Some(&client)).await;
    let key = made.body["client_key"].as_str().unwrap();
    let answer = post(key).await;
    assert_eq!((header(&answer, "ratelimit-limit"), header(&answer, "ratelimit-remaining")), (5, 4));
    let path = format!("/admin/api-clients/{}", made.body["id"].as_str().unwrap());
    let cleared = json!({ "rate_limit_capacity": Value::Null, "rate_limit_refill_rate": 1000.0 });
    assert_eq!(server.admin(Method::PUT, &path, Some(&cleared)).await.status, StatusCode::NO_CONTENT);
    let answer = post(key).await;
    assert_eq!(header(&answer, "ratelimit-limit"), 10, "works at once");
}

/// Scripts that replace the server's own answers have a cost, with and without a client.
#[tokio::test]
async fn replaced_methods_are_charged_by_their_lexicons() {
    const PROFILE: &str = "app.bsky.actor.getProfile";
    const DESCRIBE: &str = "com.atproto.server.describeServer";
    let limits = [("DEFAULT_RATE_LIMIT_CAPACITY", "10"), ("DEFAULT_RATE_LIMIT_REFILL_RATE", "0.01")];
    let (server, _directory) = sqlite_server(&limits).await;
    let path = format!("/xrpc/{DESCRIBE}");
    let described = async |headers: &[(&str, &str)]| server.request(Method::GET, &path, headers, None).await;
    // The server's own answer is free, like a page.
    for _ in 0..15 {
        assert_eq!(described(&[]).await.status, StatusCode::OK);
    }
    for (nsid, cost) in [(PROFILE, 3), (DESCRIBE, 4)] {
        let lexicon = json!({ "lexicon_json": query_lexicon(nsid), "token_cost": cost });
        assert_eq!(server.admin(Method::POST, "/admin/lexicons", Some(&lexicon)).await.status, 201);
        server.bind(nsid, "function handle() return { scripted = true } end").await;
    }
    assert_eq!(header(&server.xrpc(PROFILE).await, "ratelimit-remaining"), 7);
    let named = described(&[("x-client-key", &server.client_key)]).await;
    assert_eq!(
        (&named.body["scripted"], header(&named, "ratelimit-remaining")),
        (&json!(true), 3),
        "{}",
        named.text
    );
    for remaining in [6, 2] {
        let anonymous = described(&[]).await;
        assert_eq!(anonymous.body["scripted"], true, "{}", anonymous.text);
        assert_eq!(header(&anonymous, "ratelimit-remaining"), remaining);
    }
    assert_eq!(described(&[]).await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(described(&[("x-client-key", "bvc_unknown")]).await.status, StatusCode::UNAUTHORIZED);
    let history = async |metric: &str, label: &str| {
        let path = format!("/admin/metrics?metric={metric}&label={label}");
        server.admin(Method::GET, &path, None).await.body["series"][0]["total"].clone()
    };
    assert_eq!(history("requests", DESCRIBE).await, 5.0);
    assert_eq!(history("client_requests", "(none)").await, 2.0);
    assert_eq!(history("client_requests", "(refused)").await, 2.0);
}
