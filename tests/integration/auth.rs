//! `/auth/*`: logins, cookies, and the requests that cookies allow.

mod sessions;

use std::collections::HashMap;

use http::{HeaderMap, Method};
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, LIST, World};
use crate::support::app::App;
use crate::support::instance::{Answer, Instance, OPERATOR};
use crate::support::oauth_pds::OauthPds;

/// A browser: it keeps cookies.
#[derive(Default)]
pub struct Browser(HashMap<String, String>);

impl Browser {
    async fn send(&mut self, server: &Instance, method: Method, path: &str, more: &[(&str, &str)]) -> Answer {
        self.send_body(server, method, path, more, None).await
    }

    async fn send_body(
        &mut self,
        server: &Instance,
        method: Method,
        path: &str,
        more: &[(&str, &str)],
        body: Option<String>,
    ) -> Answer {
        let cookies: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookies = cookies.join("; ");
        let mut headers = vec![("cookie", cookies.as_str())];
        headers.extend(more);
        let answer = server.request(method, path, &headers, body).await;
        self.keep(&answer.headers);
        answer
    }

    fn keep(&mut self, headers: &HeaderMap) {
        for cookie in headers.get_all("set-cookie") {
            let cookie = cookie.to_str().unwrap();
            for attribute in ["; HttpOnly", "; SameSite=Lax", "; Path=/", "; Max-Age="] {
                assert!(cookie.contains(attribute), "{cookie}");
            }
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            if cookie.contains("Max-Age=0") {
                self.0.remove(name);
            } else {
                self.0.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    pub async fn get(&mut self, server: &Instance, path: &str) -> Answer {
        self.send(server, Method::GET, path, &[]).await
    }

    /// Sends a POST from a page of the server.
    pub async fn post(&mut self, server: &Instance, path: &str, body: &Value) -> Answer {
        let own = format!("http://{}", server.address);
        self.send_body(server, Method::POST, path, &[("origin", &own)], Some(body.to_string())).await
    }

    /// Logs out, from a page of the server.
    pub async fn logout(&mut self, server: &Instance, own: &str) -> Answer {
        self.send(server, Method::POST, "/auth/logout", &[("origin", own)]).await
    }

    /// Logs in: starts at the server, consents at the PDS, and follows the redirect back.
    pub async fn login(&mut self, server: &Instance, pds: &OauthPds, did: &str) -> Answer {
        self.login_with(server, pds, did, "atproto").await
    }

    /// Like [`Self::login`], with another scope.
    pub async fn login_with(&mut self, server: &Instance, pds: &OauthPds, did: &str, scope: &str) -> Answer {
        let path = format!("/auth/login?handle={did}&redirect_uri=/page&scope={}", scope.replace(' ', "+"));
        let begun = self.get(server, &path).await;
        assert_eq!(begun.status, 200, "{}", begun.text);
        let back = pds.consent(did, begun.body["url"].as_str().unwrap());
        self.get(server, &callback(&back)).await
    }
}

fn callback(back: &HashMap<String, String>) -> String {
    format!(
        "/auth/callback?{}",
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(back).finish()
    )
}

pub fn location(answer: &Answer) -> &str {
    assert_eq!(answer.status, 303, "{}", answer.text);
    answer.headers["location"].to_str().unwrap()
}

async fn pds(world: &World) -> OauthPds {
    let pds = OauthPds::start().await;
    for did in [ALICE, BOB, OPERATOR] {
        world.plc.host(did, &pds.url());
    }
    pds
}

crate::in_both_worlds!(
    an_operator_logs_in_and_out,
    a_deleted_user_is_logged_out_everywhere,
    a_cookie_is_valid_only_for_a_user,
    a_callback_must_belong_to_the_browsers_login,
    a_login_ends_in_the_dashboard,
    handles_and_dids_are_read_without_invisible_characters,
    invalid_logins_are_refused_with_the_reason,
    the_metadata_is_that_of_the_origin
);

async fn an_operator_logs_in_and_out(world: World) {
    let server = &world.server;
    let pds = pds(&world).await;
    let mut browser = Browser::default();
    assert_eq!(browser.get(server, "/auth/me").await.error(), "not authenticated");
    let back = browser.login(server, &pds, OPERATOR).await;
    assert_eq!(location(&back), "/page");
    let me = browser.get(server, "/auth/me").await;
    assert_eq!(
        (&me.body["did"], &me.body["is_admin"], &me.body["is_super"]),
        (&json!(OPERATOR), &json!(true), &json!(true))
    );
    assert!(
        me.body["user_id"].is_string() && me.body["permissions"].as_array().unwrap().len() == 52,
        "{}",
        me.text
    );
    assert_eq!(browser.get(server, "/admin/stats").await.status, 200);
    // On XRPC a browser needs no client key.
    server.upload(crate::support::instance::query_lexicon(LIST), None).await;
    server.bind(LIST, "function handle() return { caller = caller_did } end").await;
    assert_eq!(browser.get(server, &format!("/xrpc/{LIST}")).await.body, json!({ "caller": OPERATOR }));

    // Writes with a cookie must come from the server's own pages.
    let own = format!("http://{}", server.address);
    let delete = "/admin/records?uri=at://did:plc:x/com.example.note/k";
    for (headers, status) in [
        (vec![], 403),
        (vec![("origin", "https://evil.example")], 403),
        (vec![("origin", "null")], 403),
        (vec![("sec-fetch-site", "cross-site")], 403),
        (vec![("origin", "https://evil.example"), ("sec-fetch-site", "same-origin")], 403),
        (vec![("sec-fetch-site", "same-origin")], 404),
        (vec![("origin", own.as_str())], 404),
    ] {
        let answer = browser.send(server, Method::DELETE, delete, &headers).await;
        assert_eq!(answer.status, status, "{headers:?} {}", answer.text);
    }
    // A modified cookie is invalid; a copied one is invalid after logout.
    let copied = Browser(browser.0.clone());
    let mut forged = Browser(browser.0.iter().map(|(n, v)| (n.clone(), format!("{v}x"))).collect());
    assert_eq!(forged.get(server, "/auth/me").await.status, 401);
    assert_eq!(browser.send(server, Method::POST, "/auth/logout", &[]).await.status, 403);
    let out = browser.send(server, Method::POST, "/auth/logout", &[("origin", &own)]).await;
    assert_eq!(out.status, 204, "{}", out.text);
    assert!(!browser.0.contains_key("belvedere_session"));
    for mut browser in [browser, copied] {
        assert_eq!(browser.get(server, "/auth/me").await.status, 401);
        assert_eq!(browser.get(server, "/admin/stats").await.status, 401);
    }
    server.eventually("the session is revoked", async |_| pds.requests("/oauth/revoke").len() == 1).await;
}

async fn a_deleted_user_is_logged_out_everywhere(world: World) {
    let server = &world.server;
    let pds = pds(&world).await;
    server.upload(crate::support::instance::query_lexicon(LIST), None).await;
    server.bind(LIST, "function handle() return { caller = caller_did } end").await;
    let user = json!({ "did": ALICE, "permissions": ["stats:read"] });
    let made = server.admin(Method::POST, "/admin/users", Some(&user)).await;
    let (mut browser, mut other) = (Browser::default(), Browser::default());
    for browser in [&mut browser, &mut other] {
        assert_eq!(location(&browser.login(server, &pds, ALICE).await), "/page");
        assert_eq!(browser.get(server, &format!("/xrpc/{LIST}")).await.body, json!({ "caller": ALICE }));
    }
    let path = format!("/admin/users/{}", made.body["id"].as_str().unwrap());
    assert_eq!(server.admin(Method::DELETE, &path, None).await.status, 204);
    for browser in [&mut browser, &mut other] {
        let answer = browser.get(server, &format!("/xrpc/{LIST}")).await;
        assert_eq!((answer.status.as_u16(), answer.error()), (401, "Missing client identification"));
        for path in ["/auth/me", "/admin/stats"] {
            assert_eq!(browser.get(server, path).await.status, 401, "{path}");
        }
    }
    server.eventually("both sessions are revoked", async |_| pds.requests("/oauth/revoke").len() == 2).await;
    // Recreated as a user, they can log in again.
    assert_eq!(server.admin(Method::POST, "/admin/users", Some(&user)).await.status, 201);
    assert_eq!(browser.get(server, "/auth/me").await.status, 401);
}

async fn a_cookie_is_valid_only_for_a_user(world: World) {
    let server = &world.server;
    let pds = pds(&world).await;
    let user = json!({ "did": ALICE });
    server.admin(Method::POST, "/admin/users", Some(&user)).await;
    let mut browser = Browser::default();
    assert_eq!(location(&browser.login(server, &pds, ALICE).await), "/page");
    assert_eq!(browser.get(server, "/auth/me").await.status, 200);
    // The state after a login that completes while its user is being deleted.
    world.execute("DELETE FROM users WHERE did = 'did:plc:alicealicealicealicealic'").await;
    assert_eq!(browser.get(server, "/auth/me").await.status, 401);
}

async fn a_callback_must_belong_to_the_browsers_login(world: World) {
    let server = &world.server;
    let pds = pds(&world).await;
    // An account that is not a user gets no cookie.
    let mut browser = Browser::default();
    assert_eq!(location(&browser.login(server, &pds, ALICE).await), "/login?error=not_authorized");
    assert!(!browser.0.contains_key("belvedere_session"));
    // The callback of one browser does not log another browser in.
    let begun = browser.get(server, &format!("/auth/login?handle={OPERATOR}")).await;
    let back = callback(&pds.consent(OPERATOR, begun.body["url"].as_str().unwrap()));
    let mut other = Browser::default();
    assert_eq!(location(&other.get(server, &back).await), "/login?error=expired");
    // A state is valid only once.
    assert_eq!(location(&browser.get(server, &back).await), "/login?error=expired");
    // Callbacks from another issuer, without a code, or with an error.
    for (change, error) in [
        (("iss", Some("https://evil.example")), "wrong_server"),
        (("iss", None), "wrong_server"),
        (("code", Some("made-up")), "failed"),
        (("code", None), "wrong_server"),
        (("error", Some("access_denied")), "access_denied"),
        (("error", Some("server_error")), "server_error"),
        (("error", Some("Visit evil.example")), "access_denied"),
        (("state", Some("made-up")), "expired"),
    ] {
        let begun = browser.get(server, &format!("/auth/login?handle={OPERATOR}")).await;
        let mut back = pds.consent(OPERATOR, begun.body["url"].as_str().unwrap());
        match change {
            (name, Some(value)) => drop(back.insert(name.to_owned(), value.to_owned())),
            (name, None) => drop(back.remove(name)),
        }
        let answer = browser.get(server, &callback(&back)).await;
        assert_eq!(location(&answer), format!("/login?error={error}"), "{change:?}");
    }
    // The tokens belong to another account than the login was started for.
    let begun = browser.get(server, &format!("/auth/login?handle={OPERATOR}")).await;
    let back = pds.consent(BOB, begun.body["url"].as_str().unwrap());
    assert_eq!(location(&browser.get(server, &callback(&back)).await), "/login?error=wrong_account");
    assert!(!browser.0.contains_key("belvedere_session"));

    // The event log has them, but not a callback that belongs to no login.
    let events = server.admin(Method::GET, "/admin/events?event_type=session.refused&limit=100", None).await;
    let events = events.body["events"].as_array().unwrap();
    let reasons: Vec<_> =
        events.iter().map(|event| (&event["subject"], event["detail"]["reason"].as_str().unwrap())).collect();
    let of = |did: &str, reason| reasons.contains(&(&json!(did), reason));
    assert!(of(ALICE, "not_authorized") && of(OPERATOR, "other_browser"), "{reasons:?}");
    let count = |reason| reasons.iter().filter(|(_, other)| *other == reason).count();
    assert_eq!((count("wrong_server"), count("access_denied"), count("expired")), (3, 2, 0), "{reasons:?}");
}

async fn a_login_ends_in_the_dashboard(world: World) {
    let server = &world.server;
    let pds = pds(&world).await;
    let mut browser = Browser::default();
    let begun = browser.get(server, &format!("/auth/login?handle={OPERATOR}")).await;
    let back = pds.consent(OPERATOR, begun.body["url"].as_str().unwrap());
    assert_eq!(location(&browser.get(server, &callback(&back)).await), "/dashboard/");
    // A page of the dashboard, which it names behind the #.
    let to = "/auth/login?redirect_uri=%2Fdashboard%2F%23%2Frecords%3Fcollection%3Da";
    let begun = browser.get(server, &format!("{to}&handle={OPERATOR}")).await;
    let back = pds.consent(OPERATOR, begun.body["url"].as_str().unwrap());
    assert_eq!(location(&browser.get(server, &callback(&back)).await), "/dashboard/#/records?collection=a");
    // One that fails ends there as well, with the reason. The paths are relative, for a proxy with a base path.
    let long = "x".repeat(100);
    let (query_of_long, end_of_long) =
        (format!("?error={long}"), format!("dashboard/#/login?error={}", &long[..64]));
    for (query, to) in [
        ("", "dashboard/#/login"),
        ("?error=", "dashboard/#/login"),
        ("?error=not_authorized", "dashboard/#/login?error=not%5Fauthorized"),
        ("?error=%3Cscript%3E%26a%3Db%23", "dashboard/#/login?error=%3Cscript%3E%26a%3Db%23"),
        (query_of_long.as_str(), end_of_long.as_str()),
    ] {
        assert_eq!(location(&browser.get(server, &format!("/login{query}")).await), to);
    }
    for path in ["/", "/dashboard"] {
        assert_eq!(location(&browser.get(server, path).await), "dashboard/");
    }
}

/// Pages put marks of writing direction around handles, and copies have them too.
async fn handles_and_dids_are_read_without_invisible_characters(world: World) {
    let server = &world.server;
    let pds = pds(&world).await;
    world.plc.host(BOB, &pds.url());
    // The first name that is a handle is the account's.
    world.plc.also_known_as(BOB, &json!(["at://not a handle", "at://Bob.example", "at://other.example"]));
    for name in ["bob.example", "other.example"] {
        server.dns.txt(&format!("_atproto.{name}"), &format!("did={BOB}"));
    }
    let encoded = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pasted = ["\u{202a}@bob.example\u{202c}", "\u{feff}Bob.example", " bob\u{200b}.example\u{2069} "];
    for handle in pasted {
        let login =
            server.request(Method::GET, &format!("/auth/login?handle={}", encoded(handle)), &[], None).await;
        assert_eq!(login.status, 200, "{handle:?} {}", login.text);
        let path = format!("/admin/records?collection=com.example.note&repo={}", encoded(handle));
        let read = server.admin(Method::GET, &path, None).await;
        assert_eq!(read.status, 200, "{handle:?} {}", read.text);
    }
    let linked = json!({ "scopes": "repo:com.example.note", "handle": pasted[0] });
    let linked = server.admin(Method::POST, "/admin/linked-repos", Some(&linked)).await;
    assert_eq!(
        (&linked.body["did"], &linked.body["handle"]),
        (&json!(BOB), &json!("bob.example")),
        "{}",
        linked.text
    );
    let did = json!({ "did": format!("\u{2068}{BOB}\u{2069}") });
    assert_eq!(server.admin(Method::POST, "/admin/labelers", Some(&did)).await.status, 201);
    let user = server.admin(Method::POST, "/admin/users", Some(&did)).await;
    assert_eq!((user.status.as_u16(), &user.body["did"]), (201, &json!(BOB)), "{}", user.text);
    let other = server.request(Method::GET, "/auth/login?handle=other.example", &[], None).await;
    assert!(other.error().starts_with("the handle resolves to"), "{}", other.text);
    let blank = server.request(Method::GET, "/auth/login?handle=%E2%80%8B", &[], None).await;
    assert!(blank.error().starts_with("handle is missing"), "{}", blank.text);
}

async fn invalid_logins_are_refused_with_the_reason(world: World) {
    let server = &world.server;
    let pds = pds(&world).await;
    for (query, status, error) in [
        ("", 400, "handle is missing"),
        ("handle=%20", 400, "handle is missing"),
        ("handle=not%20a%20handle", 400, "it is neither a handle nor a DID"),
        ("handle=nobody.example", 400, "the handle could not be resolved"),
        ("handle=did:plc:nobodynobodynobodynobody", 502, "the DID could not be resolved"),
        ("handle=HANDLE&redirect_uri=https://evil.example", 400, "redirect_uri must be a path"),
        ("handle=HANDLE&scope=transition:email%20atproto", 400, "scope must have atproto"),
        ("handle=HANDLE&client_id=https://app.example", 400, "client_id is not supported"),
    ] {
        let query = query.replace("HANDLE", OPERATOR);
        let answer = server.request(Method::GET, &format!("/auth/login?{query}"), &[], None).await;
        assert_eq!(answer.status, status, "{query} {}", answer.text);
        assert!(answer.error().starts_with(error), "{query} {}", answer.text);
    }
    assert!(pds.requests("/oauth/par").is_empty());
    // A handle resolves to a DID only if the DID document names the handle.
    server.dns.txt("_atproto.alice.example", &format!("did={ALICE}"));
    let answer = server.request(Method::GET, "/auth/login?handle=@Alice.example", &[], None).await;
    assert!(answer.error().starts_with("the handle resolves to"), "{}", answer.text);
}

async fn the_metadata_is_that_of_the_origin(world: World) {
    let server = &world.server;
    let metadata = async |host: &str| {
        server.request(Method::GET, "/oauth-client-metadata.json", &[("host", host)], None).await.body
    };
    let own: Value = metadata(&server.address.to_string()).await;
    assert_eq!(
        (&own["token_endpoint_auth_method"], &own["dpop_bound_access_tokens"]),
        (&json!("none"), &json!(true))
    );
    let added =
        server.admin(Method::POST, "/admin/domains", Some(&json!({ "url": "https://second.example" }))).await;
    assert_eq!(added.status, 201, "{}", added.text);
    let second = metadata("second.example").await;
    assert_eq!(second["client_id"], "https://second.example/oauth-client-metadata.json");
    assert_eq!(second["redirect_uris"], json!(["https://second.example/auth/callback"]));
    assert_eq!(
        (&second["token_endpoint_auth_method"], &second["jwks"]["keys"][0]["crv"]),
        (&json!("private_key_jwt"), &json!("P-256"))
    );
    // For an unknown Host header the metadata is that of PUBLIC_URL.
    assert_eq!(metadata("evil.example").await, own);
}
