//! Tests of the list of what can write to a user's repo.

use super::*;
use crate::support::event_stream;

crate::in_both_worlds!(
    users_see_and_end_what_can_write_to_their_repo,
    browsers_are_recognized_and_ended,
    admins_end_the_browser_sessions_of_users
);

const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

/// Logs in with a browser of this name at this address.
async fn logged_in(server: &Instance, pds: &OauthPds, did: &str, user_agent: &str, address: &str) -> Browser {
    let mut browser = Browser::default();
    let headers = [("user-agent", user_agent), ("x-forwarded-for", address)];
    let path = format!("/auth/login?handle={did}&redirect_uri=/page&scope=atproto");
    let begun = browser.send(server, Method::GET, &path, &headers).await;
    let back = pds.consent(did, begun.body["url"].as_str().unwrap());
    let answer = browser.send(server, Method::GET, &callback(&back), &headers).await;
    assert_eq!(location(&answer), "/page");
    browser
}

async fn browsers_are_recognized_and_ended(world: World) {
    let server = &world.server;
    let pds = pds(&world).await;
    let own = format!("http://{}", server.address);
    let mut browser = logged_in(server, &pds, OPERATOR, FIREFOX, "198.51.100.1").await;
    let mut other = logged_in(server, &pds, OPERATOR, "tool<script>/1", "198.51.100.2").await;
    let mut third = logged_in(server, &pds, OPERATOR, "", "198.51.100.3").await;
    let sessions = browser.get(server, "/auth/sessions").await.body["sessions"].clone();
    let named = |address: &str| {
        let of = |session: &&Value| session["address"] == address;
        sessions.as_array().unwrap().iter().find(of).unwrap_or_else(|| panic!("{sessions}"))
    };
    let first = named("198.51.100.1");
    assert_eq!((&first["device"], &first["is_current"]), (&json!("Firefox on Linux"), &json!(true)));
    assert_eq!(
        (&named("198.51.100.2")["device"], &named("198.51.100.3")["device"]),
        (&json!("tool"), &json!(null))
    );

    // The address and the time are those of the last use, to the minute.
    let from = [("x-forwarded-for", "198.51.100.9")];
    assert_eq!(browser.send(server, Method::GET, "/admin/stats", &from).await.status, 200);
    server
        .eventually("the use is noted", async |server| {
            let cookies = Browser(browser.0.clone()).get(server, "/auth/sessions").await;
            cookies.body["sessions"].as_array().unwrap().iter().any(|row| row["address"] == "198.51.100.9")
        })
        .await;
    assert_eq!(browser.send(server, Method::GET, "/admin/stats", &[]).await.status, 200);
    let again = browser.get(server, "/auth/sessions").await.text;
    assert!(again.contains("198.51.100.9"), "once a minute: {again}");

    // A copied cookie ends with the others, and so does an open event stream.
    let cookie = other.0.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ");
    let path = "/admin/events/stream?category=nothing";
    let mut stream = event_stream::open_as(server, ("cookie", &cookie), path).await.unwrap();
    stream.first().await;
    let ended = browser.send(server, Method::DELETE, "/auth/sessions", &[]).await;
    assert_eq!(ended.status, 403, "not from a page of another site");
    let ended = browser.send(server, Method::DELETE, "/auth/sessions", &[("origin", &own)]).await;
    assert_eq!((ended.status.as_u16(), &ended.body), (200, &json!({ "ended": 2 })), "{}", ended.text);
    assert_eq!(stream.next().await, None);
    for ended in [&mut other, &mut third] {
        assert_eq!(ended.get(server, "/auth/me").await.status, 401);
    }
    assert_eq!(browser.get(server, "/auth/me").await.status, 200);
    assert_eq!(Browser::default().send(server, Method::DELETE, "/auth/sessions", &[]).await.status, 401);

    let events = server.admin(Method::GET, "/admin/events?category=session", None).await.body;
    let events = events["events"].as_array().unwrap();
    let types: Vec<_> = events.iter().map(|event| event["event_type"].as_str().unwrap()).collect();
    assert_eq!(types, [&["session.ended"; 2][..], &["session.started"; 3]].concat());
    let started = &events[4];
    assert_eq!(
        (&started["actor_did"], &started["address"], &started["detail"]["device"]),
        (&json!(OPERATOR), &json!("198.51.100.1"), &json!("Firefox on Linux"))
    );
    assert_eq!(
        (&events[0]["authentication"], &events[0]["detail"]["kind"]),
        (&json!("session"), &json!("browser"))
    );
}

async fn admins_end_the_browser_sessions_of_users(world: World) {
    let server = &world.server;
    let pds = pds(&world).await;
    let own = format!("http://{}", server.address);
    let user = json!({ "did": ALICE, "permissions": ["stats:read", "users:read"] });
    let alice = server.admin(Method::POST, "/admin/users", Some(&user)).await.body;
    let users = server.admin(Method::GET, "/admin/users", None).await.body;
    let operator = users.as_array().unwrap().iter().find(|user| user["did"] == OPERATOR).unwrap();
    let path = |user: &Value| format!("/admin/users/{}/sessions", user["id"].as_str().unwrap());
    let mut browser = logged_in(server, &pds, ALICE, FIREFOX, "198.51.100.1").await;
    let mut second = logged_in(server, &pds, ALICE, FIREFOX, "198.51.100.2").await;
    let mut admin = logged_in(server, &pds, OPERATOR, FIREFOX, "198.51.100.3").await;
    // The address of a session is that of its last use.
    let same = [("x-forwarded-for", "198.51.100.1")];
    let refused = browser.send(server, Method::GET, &path(&alice), &same).await;
    assert_eq!(refused.status, 403, "also one's own, without users:update");

    let listed = admin.get(server, &path(&alice)).await;
    let sessions = listed.body["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 2, "{}", listed.text);
    let first = sessions.iter().find(|session| session["address"] == "198.51.100.1").unwrap();
    assert_eq!((&first["device"], &first["is_current"]), (&json!("Firefox on Linux"), &json!(false)));
    let cookies: Vec<&String> = browser.0.values().chain(second.0.values()).collect();
    assert!(cookies.iter().all(|cookie| !listed.text.contains(cookie.split('.').next().unwrap())));
    let mine = admin.get(server, &path(operator)).await.body;
    assert_eq!(
        (mine["sessions"].as_array().unwrap().len(), &mine["sessions"][0]["is_current"]),
        (1, &json!(true))
    );

    let end = async |browser: &mut Browser, path: &str| {
        let answer = browser.send(server, Method::DELETE, path, &[("origin", &own)]).await;
        (answer.status.as_u16(), answer.body)
    };
    let one = format!("{}/{}", path(&alice), first["id"].as_str().unwrap());
    let foreign = format!("{}/{}", path(operator), first["id"].as_str().unwrap());
    assert_eq!(end(&mut admin, &foreign).await.0, 404, "another user's");
    assert_eq!(end(&mut admin, &one).await.0, 204);
    assert_eq!(end(&mut admin, &one).await.0, 404);
    assert_eq!(
        (browser.get(server, "/auth/me").await.status, second.get(server, "/auth/me").await.status),
        (http::StatusCode::UNAUTHORIZED, http::StatusCode::OK)
    );
    assert_eq!(end(&mut admin, &path(&alice)).await, (200, json!({ "ended": 1 })));
    assert_eq!(second.get(server, "/auth/me").await.status, 401);
    assert_eq!(end(&mut admin, &path(operator)).await, (200, json!({ "ended": 0 })), "the own one stays");
    assert_eq!(end(&mut admin, "/admin/users/none/sessions").await.0, 404);

    // The super user's are its own.
    let grant = json!({ "grant": ["users:update"] });
    let permissions = path(&alice).replace("sessions", "permissions");
    assert_eq!(server.admin(Method::PATCH, &permissions, Some(&grant)).await.status, 200);
    let mut browser = logged_in(server, &pds, ALICE, FIREFOX, "198.51.100.1").await;
    assert_eq!(end(&mut browser, &path(operator)).await.0, 403);
    let ended = server.admin(Method::GET, "/admin/events?event_type=session.ended", None).await.body;
    assert_eq!(
        (
            ended["events"].as_array().unwrap().len(),
            &ended["events"][0]["actor_did"],
            &ended["events"][0]["subject"]
        ),
        (2, &json!(OPERATOR), &json!(ALICE))
    );
}

async fn users_see_and_end_what_can_write_to_their_repo(world: World) {
    let server = &world.server;
    let pds = pds(&world).await;
    let own = format!("http://{}", server.address);
    let user = json!({ "did": ALICE, "permissions": ["stats:read"] });
    server.admin(Method::POST, "/admin/users", Some(&user)).await;
    let app = App::confidential(server, "writer").await;
    let device = app.device(server, &pds, ALICE, json!({})).await;
    let others = app.device(server, &pds, BOB, json!({})).await;
    let (mut browser, mut other) = (Browser::default(), Browser::default());
    browser.login(server, &pds, ALICE).await;
    other.login(server, &pds, ALICE).await;
    assert_eq!(Browser::default().get(server, "/auth/sessions").await.status, 401);

    let listed = browser.get(server, "/auth/sessions").await;
    let sessions = listed.body["sessions"].as_array().unwrap();
    let kinds: Vec<_> =
        sessions.iter().map(|s| (s["kind"].as_str().unwrap(), s["is_current"] == true)).collect();
    assert_eq!(kinds, [("browser", false), ("browser", true), ("app", false)], "{}", listed.text);
    let of_app = &sessions[2];
    assert_eq!(
        (&of_app["id"], &of_app["name"], &of_app["client_id"]),
        (&json!(device.id), &json!("writer"), &json!(app.id))
    );
    assert!(
        of_app["scopes"].as_array().unwrap().contains(&json!("atproto")) && of_app["expires_at"].is_null()
    );

    let end = async |browser: &mut Browser, id: &str, origin: &str| {
        let path = format!("/auth/sessions/{id}");
        browser.send(server, Method::DELETE, &path, &[("origin", origin)]).await.status.as_u16()
    };
    assert_eq!(end(&mut browser, &device.id, "https://evil.example").await, 403);
    assert_eq!(end(&mut browser, &others.id, &own).await, 404, "another user's");
    assert_eq!(end(&mut browser, "nonsense", &own).await, 404);
    assert_eq!(end(&mut Browser::default(), &device.id, &own).await, 401);
    assert_eq!(end(&mut browser, &device.id, &own).await, 204);
    server.eventually("the session is revoked", async |_| pds.requests("/oauth/revoke").len() == 1).await;
    assert_eq!(end(&mut browser, &device.id, &own).await, 404, "once");
    // The one of another browser, and at last the own.
    let of_other = sessions[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(end(&mut browser, &of_other, &own).await, 204);
    assert_eq!(other.get(server, "/auth/me").await.status, 401);
    let of_this = sessions[1]["id"].as_str().unwrap().to_owned();
    assert_eq!(end(&mut browser, &of_this, &own).await, 204);
    assert!(!browser.0.contains_key("belvedere_session"));
}
