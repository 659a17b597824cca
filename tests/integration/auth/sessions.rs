//! Tests of the list of what can write to a user's repo.

use super::*;

crate::in_both_worlds!(users_see_and_end_what_can_write_to_their_repo);

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
