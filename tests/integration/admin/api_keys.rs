//! `/admin/api-keys`

use crate::fixtures::World;
use http::Method;
use serde_json::json;

crate::in_both_worlds!(
    a_key_is_shown_once_works_and_stops_when_revoked,
    a_key_never_exceeds_its_users_permissions
);

async fn a_key_is_shown_once_works_and_stops_when_revoked(world: World) {
    let server = &world.server;
    let body = json!({ "name": "ci", "permissions": ["lexicons:read", "api-keys:read"] });
    let made = server.admin(Method::POST, "/admin/api-keys", Some(&body)).await;
    assert_eq!(made.status, 201);
    let key = made.body["key"].as_str().unwrap();
    assert!(key.starts_with("bva_"));
    assert_eq!(made.body["key_prefix"], key[..12]);
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str())];

    let answer = server.request(Method::GET, "/admin/lexicons", &headers, None).await;
    assert_eq!(answer.status, 200);
    let answer = server.request(Method::GET, "/admin/stats", &headers, None).await;
    assert_eq!((answer.status.as_u16(), answer.error()), (403, "insufficient permissions"));

    let list = server.admin(Method::GET, "/admin/api-keys", None).await;
    let shown = &list.body[0];
    assert_eq!(shown["name"], "ci", "newest first");
    assert!(shown.get("key").is_none() && !list.text.contains(key), "never again");
    assert!(shown["revoked_at"].is_null());

    let path = format!("/admin/api-keys/{}", made.body["id"].as_str().unwrap());
    assert_eq!(server.admin(Method::DELETE, &path, None).await.status, 204);
    assert_eq!(server.admin(Method::DELETE, &path, None).await.status, 404);
    assert_eq!(server.request(Method::GET, "/admin/lexicons", &headers, None).await.status, 401);
    let list = server.admin(Method::GET, "/admin/api-keys", None).await;
    assert!(list.body[0]["revoked_at"].is_string(), "its row stays");
}

async fn a_key_never_exceeds_its_users_permissions(world: World) {
    let server = &world.server;
    let made = server
        .admin(
            Method::POST,
            "/admin/api-keys",
            Some(&json!({ "name": "k", "permissions": ["api-keys:create"] })),
        )
        .await;
    let bearer = format!("Bearer {}", made.body["key"].as_str().unwrap());
    let headers = [("authorization", bearer.as_str())];
    let body = json!({ "name": "more", "permissions": ["lexicons:create"] }).to_string();
    let answer = server.request(Method::POST, "/admin/api-keys", &headers, Some(body)).await;
    assert_eq!(answer.status, 403);
    for body in [
        json!({ "name": " ", "permissions": [] }),
        json!({ "name": "x", "permissions": ["lexicons:fly"] }),
        json!({ "permissions": [] }),
        json!({ "name": "x" }),
        json!({ "name": 5, "permissions": [] }),
    ] {
        let answer = server.admin(Method::POST, "/admin/api-keys", Some(&body)).await;
        assert_eq!(answer.status, 400, "{body}");
    }
}
