//! `/admin/users`

use belvedere_protocol::crypto::Algorithm;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, World};
use crate::support::instance::{Answer, OPERATOR};
use crate::support::plc::Person;

/// Sends a request with a service token of `person`.
async fn as_person(
    world: &World,
    person: &Person,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Answer {
    let token = person.token(&world.server.did(), json!({}));
    let headers = [("authorization", &*format!("Bearer {token}"))];
    world.server.request(method, path, &headers, body.map(Value::to_string)).await
}

async fn made(world: &World, body: Value) -> Value {
    let answer = world.server.admin(Method::POST, "/admin/users", Some(&body)).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.body
}

crate::in_both_worlds!(
    a_user_has_exactly_the_granted_permissions,
    users_can_not_grant_permissions_that_they_lack,
    users_can_not_change_their_own_permissions,
    permissions_that_the_caller_lacks_are_neither_granted_nor_revoked,
    users_with_permissions_that_the_caller_lacks_are_not_deleted,
    a_did_is_checked_before_it_becomes_a_user,
    bad_users_are_refused,
    accounts_are_named_by_handles,
    the_super_user_transfers_its_role
);

async fn a_user_has_exactly_the_granted_permissions(world: World) {
    let alice = world.plc.person(ALICE, Algorithm::Es256k);
    let nobody = as_person(&world, &alice, Method::GET, "/admin/stats", None).await;
    assert_eq!((nobody.status.as_u16(), nobody.error()), (403, "forbidden"));
    let user = made(&world, json!({ "did": ALICE })).await;
    assert_eq!(
        (&user["did"], &user["is_super"], &user["permissions"]),
        (&json!(ALICE), &json!(false), &json!([]))
    );
    let path = format!("/admin/users/{}", user["id"].as_str().unwrap());
    let nothing = as_person(&world, &alice, Method::GET, "/admin/stats", None).await;
    assert_eq!((nothing.status.as_u16(), nothing.error()), (403, "insufficient permissions"));

    let change =
        json!({ "grant": ["stats:read", "api-keys:create", "lexicons:read"], "revoke": ["events:read"] });
    let answer = world.server.admin(Method::PATCH, &format!("{path}/permissions"), Some(&change)).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.body["permissions"]),
        (200, &json!(["api-keys:create", "lexicons:read", "stats:read"])),
        "{}",
        answer.text
    );
    assert_eq!(as_person(&world, &alice, Method::GET, "/admin/stats", None).await.status, 200);

    // A revoked permission is revoked for the user's keys too, at once.
    let key = json!({ "name": "k", "permissions": ["stats:read", "lexicons:read"] });
    let key = as_person(&world, &alice, Method::POST, "/admin/api-keys", Some(&key)).await;
    let bearer = format!("Bearer {}", key.body["key"].as_str().unwrap());
    let with_key = async || {
        world
            .server
            .request(Method::GET, "/admin/stats", &[("authorization", &bearer)], None)
            .await
            .status
            .as_u16()
    };
    assert_eq!(with_key().await, 200);
    let change = json!({ "revoke": ["stats:read"] });
    assert_eq!(
        world.server.admin(Method::PATCH, &format!("{path}/permissions"), Some(&change)).await.status,
        200
    );
    assert_eq!(with_key().await, 403);

    let shown = world.server.admin(Method::GET, &path, None).await;
    assert_eq!(shown.body["permissions"], json!(["api-keys:create", "lexicons:read"]));
    assert!(shown.body["last_used_at"].is_string() && shown.body["created_at"].is_string(), "{}", shown.text);
    let all = world.server.admin(Method::GET, "/admin/users", None).await;
    let dids: Vec<_> = all.body.as_array().unwrap().iter().map(|u| u["did"].as_str().unwrap()).collect();
    assert!(dids.contains(&ALICE), "{}", all.text);

    assert_eq!(world.server.admin(Method::DELETE, &path, None).await.status, 204);
    assert_eq!(world.server.admin(Method::DELETE, &path, None).await.status, 404);
    assert_eq!(world.server.admin(Method::GET, &path, None).await.status, 404);
    assert_eq!(with_key().await, 401, "its keys are gone");
    let events = world.server.admin(Method::GET, "/admin/events?category=user", None).await;
    let types: Vec<_> =
        events.body["events"].as_array().unwrap().iter().map(|e| e["event_type"].as_str().unwrap()).collect();
    assert_eq!(
        types[..4],
        ["user.deleted", "user.permissions_updated", "user.permissions_updated", "user.created"]
    );
}

async fn users_can_not_grant_permissions_that_they_lack(world: World) {
    let alice = world.plc.person(ALICE, Algorithm::Es256k);
    // A list replaces the template.
    let user = made(
        &world,
        json!({ "did": ALICE, "template": "full_access",
            "permissions": ["users:create", "users:update", "users:delete", "events:read"] }),
    )
    .await;
    assert_eq!(user["permissions"], json!(["events:read", "users:create", "users:delete", "users:update"]));
    let log = world.server.admin(Method::GET, "/admin/events?event_type=user.created", None).await;
    assert_eq!(log.body["events"][0]["detail"]["template"], Value::Null, "{}", log.text);
    world.plc.person(BOB, Algorithm::Es256k);
    let bob = made(&world, json!({ "did": BOB })).await;
    let of_bob = format!("/admin/users/{}/permissions", bob["id"].as_str().unwrap());
    let of_alice = format!("/admin/users/{}/permissions", user["id"].as_str().unwrap());
    for (method, path, body) in [
        (
            Method::POST,
            "/admin/users",
            json!({ "did": "did:plc:newnewnewnewnewnewnewnew", "permissions": ["scripts:manage"] }),
        ),
        (
            Method::POST,
            "/admin/users",
            json!({ "did": "did:plc:newnewnewnewnewnewnewnew", "template": "operator" }),
        ),
        (
            Method::POST,
            "/admin/users",
            json!({ "did": "did:plc:newnewnewnewnewnewnewnew", "template": "operator", "permissions": null }),
        ),
        (Method::PATCH, &of_bob, json!({ "grant": ["scripts:manage"] })),
        (Method::PATCH, &of_alice, json!({ "grant": ["scripts:manage"] })),
        (Method::POST, "/admin/users/transfer-super", json!({ "target_user_id": user["id"] })),
    ] {
        let answer = as_person(&world, &alice, method, path, Some(&body)).await;
        assert_eq!(answer.status, 403, "{path} {body}: {}", answer.text);
    }
    let answer =
        as_person(&world, &alice, Method::PATCH, &of_bob, Some(&json!({ "grant": ["events:read"] }))).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    // The operation requires a login or a service token; an API key is refused, even the super user's.
    let answer = world
        .server
        .admin(Method::POST, "/admin/users/transfer-super", Some(&json!({ "target_user_id": user["id"] })))
        .await;
    assert_eq!(answer.status, 403, "{}", answer.text);
    let own = format!("/admin/users/{}", user["id"].as_str().unwrap());
    assert_eq!(
        as_person(&world, &alice, Method::DELETE, &own, None).await.status,
        403,
        "a user can't delete itself"
    );
}

async fn users_can_not_change_their_own_permissions(world: World) {
    let alice = world.plc.person(ALICE, Algorithm::Es256k);
    let operator = world.plc.person(OPERATOR, Algorithm::Es256k);
    let user = made(&world, json!({ "did": ALICE, "template": "full_access" })).await;
    let of = |id: &Value| format!("/admin/users/{}/permissions", id.as_str().unwrap());
    let own = of(&user["id"]);
    let key = json!({ "name": "k", "permissions": ["users:update", "users:create", "stats:read"] });
    let key = as_person(&world, &alice, Method::POST, "/admin/api-keys", Some(&key)).await;
    let bearer = format!("Bearer {}", key.body["key"].as_str().unwrap());
    for body in [json!({ "grant": ["stats:read"] }), json!({ "revoke": ["stats:read"] }), json!({})] {
        let answer = as_person(&world, &alice, Method::PATCH, &own, Some(&body)).await;
        assert_eq!(
            (answer.status.as_u16(), answer.error()),
            (403, "you can't change your own permissions"),
            "{body}"
        );
        let headers = [("authorization", &*bearer)];
        let answer = world.server.request(Method::PATCH, &own, &headers, Some(body.to_string())).await;
        assert_eq!(answer.status, 403, "through a key: {}", answer.text);
    }
    for (body, person) in [
        (json!({ "did": ALICE, "template": "viewer" }), &alice),
        (json!({ "did": OPERATOR, "template": "full_access" }), &operator),
    ] {
        let answer = as_person(&world, person, Method::POST, "/admin/users", Some(&body)).await;
        assert_eq!(answer.status, 403, "with a template: {}", answer.text);
    }
    // The super user can't change its own either, but can change another user's.
    let all = world.server.admin(Method::GET, "/admin/users", None).await;
    let first = all.body.as_array().unwrap().iter().find(|u| u["did"] == OPERATOR).unwrap().clone();
    let answer = as_person(&world, &operator, Method::PATCH, &of(&first["id"]), Some(&json!({}))).await;
    assert_eq!(answer.status, 403, "{}", answer.text);
    let shown =
        as_person(&world, &operator, Method::PATCH, &own, Some(&json!({ "revoke": ["stats:read"] }))).await;
    assert_eq!(shown.body["permissions"].as_array().map(Vec::len), Some(43), "{}", shown.text);
}

async fn permissions_that_the_caller_lacks_are_neither_granted_nor_revoked(world: World) {
    let alice = world.plc.person(ALICE, Algorithm::Es256k);
    world.plc.person(BOB, Algorithm::Es256k);
    made(&world, json!({ "did": ALICE, "permissions": ["users:update", "stats:read"] })).await;
    let bob = made(&world, json!({ "did": BOB, "permissions": ["stats:read", "events:read"] })).await;
    let path = format!("/admin/users/{}/permissions", bob["id"].as_str().unwrap());
    for (change, action) in [
        (json!({ "grant": ["lexicons:read"] }), "grant"),
        (json!({ "revoke": ["events:read"] }), "revoke"),
        (json!({ "revoke": ["stats:read", "events:read"] }), "revoke"),
    ] {
        let answer = as_person(&world, &alice, Method::PATCH, &path, Some(&change)).await;
        let error = format!("cannot {action} a permission that you do not have");
        assert_eq!((answer.status.as_u16(), answer.error()), (403, &*error), "{change}");
    }
    let shown =
        world.server.admin(Method::GET, &format!("/admin/users/{}", bob["id"].as_str().unwrap()), None).await;
    assert_eq!(shown.body["permissions"], json!(["events:read", "stats:read"]), "nothing has changed");
    let change = json!({ "revoke": ["stats:read"] });
    let answer = as_person(&world, &alice, Method::PATCH, &path, Some(&change)).await;
    assert_eq!((answer.status.as_u16(), &answer.body["permissions"]), (200, &json!(["events:read"])));
}

async fn users_with_permissions_that_the_caller_lacks_are_not_deleted(world: World) {
    let alice = world.plc.person(ALICE, Algorithm::Es256k);
    world.plc.person(BOB, Algorithm::Es256k);
    made(&world, json!({ "did": ALICE, "permissions": ["users:delete", "stats:read"] })).await;
    let bob = made(&world, json!({ "did": BOB, "permissions": ["stats:read", "events:read"] })).await;
    let path = format!("/admin/users/{}", bob["id"].as_str().unwrap());
    let delete = async || as_person(&world, &alice, Method::DELETE, &path, None).await;
    let refused = delete().await;
    assert_eq!(
        (refused.status.as_u16(), refused.error()),
        (403, "cannot revoke a permission that you do not have")
    );
    let shown = world.server.admin(Method::GET, &path, None).await;
    assert_eq!(shown.body["permissions"], json!(["events:read", "stats:read"]), "the user stays");
    let change = json!({ "revoke": ["events:read"] });
    assert_eq!(
        world.server.admin(Method::PATCH, &format!("{path}/permissions"), Some(&change)).await.status,
        200
    );
    assert_eq!(delete().await.status, 204);
}

async fn a_did_is_checked_before_it_becomes_a_user(world: World) {
    let create = async |body: Value| world.server.admin(Method::POST, "/admin/users", Some(&body)).await;
    for (did, error) in [
        ("did:plc:YOURS", "24 characters"),
        ("did:key:zabc", "a did:plc or a did:web"),
        ("did:web:example.com:alice", "did:web of a host"),
        (ALICE, "the DID does not exist; check it for a typo"),
    ] {
        let refused = create(json!({ "did": did })).await;
        assert_eq!(refused.status, 400, "{did} {}", refused.text);
        assert!(refused.error().contains(error), "{did} {}", refused.text);
    }
    // No server answers for this DID now. Its host is this machine, which the server reaches.
    let down = format!("did:web:127.0.0.1%3A{}", crate::support::process::free_address().port());
    let unknown = create(json!({ "did": down })).await;
    assert_eq!(unknown.status, 502, "{}", unknown.text);
    assert!(unknown.error().contains("\"unchecked\": true"), "{}", unknown.text);
    assert_eq!(create(json!({ "did": down, "unchecked": true })).await.status, 201);
    world.plc.person(BOB, Algorithm::Es256k);
    assert_eq!(create(json!({ "did": BOB })).await.status, 201);
    let all = world.server.admin(Method::GET, "/admin/users", None).await;
    let dids: Vec<&Value> = all.body.as_array().unwrap().iter().map(|user| &user["did"]).collect();
    assert_eq!(dids, [&json!(OPERATOR), &json!(down), &json!(BOB)]);
}

async fn bad_users_are_refused(world: World) {
    world.plc.person(ALICE, Algorithm::Es256k);
    let user = made(&world, json!({ "did": ALICE })).await;
    let path = format!("/admin/users/{}/permissions", user["id"].as_str().unwrap());
    for (method, path, body, status) in [
        (Method::POST, "/admin/users", json!({ "did": ALICE }), 409),
        (Method::POST, "/admin/users", json!({ "did": "alice.example" }), 400),
        (Method::POST, "/admin/users", json!({}), 400),
        (Method::POST, "/admin/users", json!({ "did": BOB, "template": "emperor" }), 400),
        (Method::POST, "/admin/users", json!({ "did": BOB, "permissions": ["lexicons:fly"] }), 400),
        (Method::PATCH, &path, json!({ "grant": ["lexicons:fly"] }), 400),
        (Method::PATCH, &path, json!({ "revoke": ["lexicons:fly"] }), 400),
        (Method::PATCH, &path, json!({ "grant": ["stats:read"], "revoke": ["stats:read"] }), 400),
        (Method::PATCH, "/admin/users/nobody/permissions", json!({ "grant": ["stats:read"] }), 404),
    ] {
        let answer = world.server.admin(method, path, Some(&body)).await;
        assert_eq!(answer.status.as_u16(), status, "{path} {body}: {}", answer.text);
    }
    for nothing in [json!({}), json!({ "grant": null, "revoke": null })] {
        assert_eq!(
            world.server.admin(Method::PATCH, &path, Some(&nothing)).await.status,
            200,
            "an empty change"
        );
    }
}

async fn the_super_user_transfers_its_role(world: World) {
    let alice = world.plc.person(ALICE, Algorithm::Es256k);
    let operator = world.plc.person(OPERATOR, Algorithm::Es256k);
    let user = made(&world, json!({ "did": ALICE })).await;
    let path = "/admin/users/transfer-super";
    let to = |id: &Value| json!({ "target_user_id": id });
    let unknown = as_person(&world, &operator, Method::POST, path, Some(&to(&json!("nobody")))).await;
    assert_eq!(unknown.status, 404, "{}", unknown.text);
    let answer = as_person(&world, &operator, Method::POST, path, Some(&to(&user["id"]))).await;
    assert_eq!((answer.status.as_u16(), &answer.body["is_super"]), (200, &json!(true)), "{}", answer.text);
    let again = as_person(&world, &operator, Method::POST, path, Some(&to(&user["id"]))).await;
    assert_eq!(again.status, 403, "only once");
    let all = as_person(&world, &alice, Method::GET, "/admin/users", None).await;
    let former = all.body.as_array().unwrap().iter().find(|u| u["did"] == OPERATOR).unwrap().clone();
    assert_eq!(former["is_super"], false);
    let own = format!("/admin/users/{}", user["id"].as_str().unwrap());
    let deleted = world.server.admin(Method::DELETE, &own, None).await;
    assert_eq!(deleted.status, 403, "the super user stays: {}", deleted.text);
    let taken = json!({ "revoke": ["stats:read"] });
    let answer = world.server.admin(Method::PATCH, &format!("{own}/permissions"), Some(&taken)).await;
    assert_eq!(answer.status, 403, "{}", answer.text);
}

async fn accounts_are_named_by_handles(world: World) {
    let server = &world.server;
    world.plc.host(ALICE, "https://pds.example");
    world.plc.also_known_as(ALICE, &json!(["at://alice.example"]));
    server.dns.txt("_atproto.alice.example", &format!("did={ALICE}"));
    assert_eq!(made(&world, json!({ "did": " @Alice.Example" })).await["did"], ALICE);

    let post = async |path: &str, body: Value| server.admin(Method::POST, path, Some(&body)).await;
    assert_eq!(post("/admin/labelers", json!({ "did": "alice.example" })).await.status, 201);
    let labelers = server.admin(Method::GET, "/admin/labelers", None).await.body;
    assert_eq!(labelers[0]["did"], ALICE, "{labelers}");

    let note = format!("at://{ALICE}/com.example.note/1");
    for (named, subject) in
        [("alice.example", ALICE), ("at://alice.example/com.example.note/1", &*note), (ALICE, ALICE)]
    {
        let body = json!({ "subject": named, "action": "hide", "reason": "spam" });
        let made = post("/admin/moderation", body).await;
        assert_eq!((made.status.as_u16(), &made.body["subject"]), (201, &json!(subject)), "{}", made.text);
        let path = format!("/admin/moderation?subject={named}");
        let listed = server.admin(Method::GET, &path, None).await.body;
        assert_eq!(listed["moderation"][0]["subject"], subject, "{listed}");
    }

    for (path, body) in [
        ("/admin/users", json!({ "did": "nobody.example" })),
        ("/admin/labelers", json!({ "did": "nobody.example" })),
        ("/admin/moderation", json!({ "subject": "nobody.example", "action": "hide", "reason": "spam" })),
        ("/admin/users", json!({ "did": "nobody" })),
        ("/admin/users", json!({ "did": "alice.example\0" })),
    ] {
        let refused = post(path, body).await;
        assert_eq!(refused.status, 400, "{path}: {}", refused.text);
    }
}
