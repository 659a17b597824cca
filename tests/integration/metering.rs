//! Limits on callers before they are authenticated: what they do must not slow down or charge other callers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use belvedere_protocol::crypto::Algorithm;
use belvedere_standins::http_client;
use http::{Method, StatusCode};
use serde_json::json;
use tokio::net::TcpListener;

use crate::fixtures::{ALICE, LIST, World};
use crate::oauth::device::{App, pds};
use crate::support::instance::{Answer, Instance, query_lexicon};

/// Accepts connections and never responds.
struct Stalled {
    ports: Vec<u16>,
    taken: Arc<AtomicUsize>,
}

impl Stalled {
    /// Listens on several ports of one address of this machine.
    async fn start(address: &str, ports: usize) -> Self {
        let mut stalled = Self { ports: Vec::new(), taken: Arc::default() };
        for _ in 0..ports {
            let listener = TcpListener::bind((address, 0)).await.unwrap();
            stalled.ports.push(listener.local_addr().unwrap().port());
            let taken = Arc::clone(&stalled.taken);
            tokio::spawn(async move {
                let mut held = Vec::new();
                while let Ok((stream, _)) = listener.accept().await {
                    held.push(stream);
                    taken.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        stalled
    }

    fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }
}

/// Sends a request with an X-Forwarded-For header, as from this address behind a proxy.
async fn from(server: &Instance, address: &str, path: &str, more: &[(&str, &str)]) -> Answer {
    let mut headers = vec![("x-forwarded-for", address)];
    headers.extend(more);
    server.request(Method::GET, path, &headers, None).await
}

async fn with_token(server: &Instance, address: &str, token: &str) -> Answer {
    from(server, address, &format!("/xrpc/{LIST}"), &[("authorization", &format!("Bearer {token}"))]).await
}

/// Repeats a request until the rate limit refuses it. Returns the number of requests before; panics after `most`.
async fn let_through(most: usize, mut request: impl AsyncFnMut(usize) -> Answer) -> usize {
    for n in 0..most {
        let answer = request(n).await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            assert!(answer.headers.contains_key("retry-after"), "{}", answer.text);
            return n;
        }
    }
    panic!("{most} requests were let through");
}

async fn with_query(world: &World) {
    world.server.upload(query_lexicon(LIST), None).await;
    world.server.bind(LIST, "function handle() return { caller = caller_did } end").await;
}

crate::in_both_worlds!(
    tokens_of_stalling_issuers_do_not_delay_other_callers,
    failed_proofs_are_charged_to_the_senders_address,
    logins_are_metered_by_address_and_by_target,
    a_public_client_is_charged_per_address,
    children_share_their_parents_bucket,
    the_number_of_child_clients_is_limited
);

/// Forged tokens name many issuers whose servers stall. Callers with valid tokens are served in the meantime.
async fn tokens_of_stalling_issuers_do_not_delay_other_callers(world: World) {
    with_query(&world).await;
    let server = &world.server;
    let stalled = Stalled::start("127.0.0.2", 48).await;
    let garbage = world.plc.person("did:plc:garbage", Algorithm::Es256);
    let audience = server.did();
    let mut flood = Vec::new();
    for port in &stalled.ports {
        let token = garbage.token(&audience, json!({ "iss": format!("did:web:127.0.0.2%3A{port}") }));
        let (address, bearer) = (server.address, format!("Bearer {token}"));
        flood.push(tokio::spawn(async move {
            let headers = [("x-forwarded-for", "198.51.100.1"), ("authorization", &*bearer)];
            http_client::send(address, Method::GET, &format!("/xrpc/{LIST}"), &headers, None).await
        }));
    }
    server.eventually("look-ups stall", async |_| stalled.taken() > 0).await;

    let person = world.plc.person("did:plc:person", Algorithm::Es256k);
    let web = world.plc.web_person(Algorithm::Es256);
    for (n, person) in [&person, &web, &person, &web].into_iter().enumerate() {
        let answer =
            with_token(server, &format!("198.51.100.{}", 10 + n), &person.token(&audience, json!({}))).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.body["caller"]),
            (200, &json!(person.did)),
            "{}",
            answer.text
        );
    }
    // Also from the address of the flood, since the DID document is cached.
    let answer = with_token(server, "198.51.100.1", &web.token(&audience, json!({}))).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    assert!(
        flood.iter().any(|call| !call.is_finished()),
        "the requests above ran while the flood was waiting"
    );
    assert!(stalled.taken() <= 4, "one domain holds at most four places");
    flood.iter().for_each(tokio::task::JoinHandle::abort);
}

async fn failed_proofs_are_charged_to_the_senders_address(world: World) {
    with_query(&world).await;
    let server = &world.server;
    let name = json!({ "name": "named", "client_id_url": "https://named.example/client.json",
        "client_uri": "https://named.example", "redirect_uris": [], "rate_limit_capacity": 2, "rate_limit_refill_rate": 0.001 });
    let app = App::with(server, name).await;
    let key = ("x-client-key", &*app.key);
    for _ in 0..5 {
        let wrong = [key, ("x-client-secret", "bvs_wrong")];
        let answer = server.request(Method::POST, "/oauth/dpop-keys", &wrong, Some("{}".to_owned())).await;
        assert_eq!(answer.error(), "invalid client credentials");
        let proof = [key, ("authorization", "DPoP x"), ("dpop", "a.b.c")];
        for path in [format!("/xrpc/{LIST}"), format!("/oauth/sessions/{ALICE}")] {
            assert_eq!(from(server, "203.0.113.7", &path, &proof).await.status, StatusCode::UNAUTHORIZED);
        }
    }
    // The client that the requests named was not charged.
    for _ in 0..2 {
        assert_eq!(app.post(server, "/oauth/dpop-keys", &[], &json!({})).await.status, StatusCode::CREATED);
        assert_eq!(
            server.request(Method::GET, &format!("/xrpc/{LIST}"), &[key], None).await.status,
            StatusCode::OK
        );
    }
    assert_eq!(
        app.post(server, "/oauth/dpop-keys", &[], &json!({})).await.status,
        StatusCode::TOO_MANY_REQUESTS
    );

    // The sender's address has one limit for all kinds of routes together.
    let paths = [format!("/xrpc/{LIST}"), "/admin/stats".to_owned()];
    let garbage = [("authorization", "Bearer not.a.token")];
    let tries =
        let_through(5_000, async |n| from(server, "203.0.113.8", &paths[n % 2], &garbage).await).await;
    assert!(tries >= 300, "{tries}");
    let admin = format!("Bearer {}", server.admin_key);
    let answer = from(server, "203.0.113.9", "/admin/stats", &[("authorization", &admin)]).await;
    assert_eq!(answer.status, StatusCode::OK, "another address");
}

async fn logins_are_metered_by_address_and_by_target(world: World) {
    let server = &world.server;
    let login = async |address: &str, handle: &str| {
        from(server, address, &format!("/auth/login?handle={handle}"), &[]).await
    };
    let of_address =
        let_through(500, async |n| login("203.0.113.7", &format!("did:plc:nobody{n}")).await).await;
    assert!(of_address >= 30, "{of_address}");
    assert_ne!(login("203.0.113.8", "did:plc:nobody").await.status, StatusCode::TOO_MANY_REQUESTS);
    // Entries that the sender adds in front of X-Forwarded-For do not change its address.
    let forged = let_through(20, async |n| {
        login(&format!("10.0.0.{n}, 203.0.113.7"), &format!("did:plc:no{n}")).await
    })
    .await;
    assert!(forged < 20);
    // Logins from many addresses for many handles of one domain.
    let of_target = let_through(2_000, async |n| {
        login(&format!("10.1.{}.{}", n / 200, n % 200), &format!("user{n}.evil.example")).await
    })
    .await;
    assert!(of_target >= 100, "{of_target}");
    assert_ne!(login("203.0.113.8", "user.good.example").await.status, StatusCode::TOO_MANY_REQUESTS);
}

async fn a_public_client_is_charged_per_address(world: World) {
    let server = &world.server;
    let app = App::public(server, "page").await;
    let body = json!({ "pkce_challenge": "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU" }).to_string();
    let provision = async |address: &str| {
        let headers =
            [("x-client-key", &*app.key), ("origin", "https://page.example"), ("x-forwarded-for", address)];
        server.request(Method::POST, "/oauth/dpop-keys", &headers, Some(body.clone())).await
    };
    let made = let_through(1_000, async |_| provision("203.0.113.7").await).await;
    assert!(made >= 60, "{made}");
    // The client's limit is 100; pages at other addresses can go on.
    assert_eq!(provision("203.0.113.8").await.status, StatusCode::CREATED);
}

async fn children_share_their_parents_bucket(world: World) {
    with_query(&world).await;
    let server = &world.server;
    let client = |name: &str, capacity: u32| {
        json!({ "name": name, "client_id_url": format!("https://{name}.example/client.json"),
            "client_uri": format!("https://{name}.example"), "redirect_uris": [], "rate_limit_capacity": capacity,
            "rate_limit_refill_rate": 0.001 })
    };
    let parent = App::with(server, client("parent", 6)).await;
    let children = [App::with(server, client("one", 100)).await, App::with(server, client("two", 2)).await];
    world
        .execute(
            "UPDATE api_clients SET parent_client_id = (SELECT id FROM api_clients WHERE name = 'parent') \
                   WHERE name IN ('one', 'two')",
        )
        .await;
    for child in &children {
        let path = format!("/admin/api-clients/{}", child.id);
        assert_eq!(server.admin(Method::PUT, &path, Some(&json!({}))).await.status, StatusCode::NO_CONTENT);
    }
    let call = async |app: &App| {
        server.request(Method::GET, &format!("/xrpc/{LIST}"), &[("x-client-key", &app.key)], None).await
    };
    let remaining =
        async |app: &App| call(app).await.headers["ratelimit-remaining"].to_str().unwrap().to_owned();
    assert_eq!(remaining(&children[0]).await, "5", "of the parent's");
    assert_eq!(remaining(&children[1]).await, "1", "of its own, which is smaller");
    assert_eq!(remaining(&parent).await, "3");
    for _ in 0..3 {
        assert_eq!(call(&children[0]).await.status, StatusCode::OK);
    }
    for app in [&parent, &children[0], &children[1]] {
        assert_eq!(call(app).await.status, StatusCode::TOO_MANY_REQUESTS);
    }
}

async fn the_number_of_child_clients_is_limited(world: World) {
    let server = &world.server;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(server, "parent").await;
    let alice = app.device(server, &pds, ALICE, json!({})).await;
    let create = async |name: &str| {
        let body = json!({ "name": name, "clientIdUrl": format!("https://{name}.example/client.json"),
            "clientUri": format!("https://{name}.example"), "redirectUris": [] });
        alice.request(server, Method::POST, "/xrpc/dev.service.createApiClient", Some(&body)).await
    };
    assert_eq!(create("first").await.status, StatusCode::CREATED);
    world.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999) \
        INSERT INTO api_clients (id, client_key, name, client_id_url, client_uri, redirect_uris, client_type, scopes, \
            allowed_origins, is_active, created_by, parent_client_id, owner_did, created_at, updated_at) \
        SELECT 'copy-' || i, 'bvc_copy-' || i, name, 'https://copy.example/' || i, client_uri, redirect_uris, client_type, scopes, \
            allowed_origins, is_active, created_by, parent_client_id, 'did:plc:someone', created_at, updated_at \
        FROM api_clients, n WHERE name = 'first'").await;
    let refused = create("second").await;
    let full = "the parent client has 1000 API clients already: delete one first";
    assert_eq!((refused.status, refused.error()), (StatusCode::BAD_REQUEST, full));
    world.execute("UPDATE api_clients SET owner_did = (SELECT owner_did FROM api_clients WHERE name = 'first' AND \
        id NOT LIKE 'copy-%') WHERE id IN (SELECT id FROM api_clients WHERE id LIKE 'copy-%' ORDER BY id LIMIT 99)").await;
    world.execute("UPDATE api_clients SET parent_client_id = NULL WHERE id LIKE 'copy-%'").await;
    let refused = create("second").await;
    assert_eq!(
        (refused.status, refused.error()),
        (StatusCode::BAD_REQUEST, "you have 100 API clients already: delete one first")
    );
    world.execute("DELETE FROM api_clients WHERE id LIKE 'copy-%'").await;
    assert_eq!(create("second").await.status, StatusCode::CREATED);
}
