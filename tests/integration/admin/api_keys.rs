//! `/admin/api-keys`

use crate::fixtures::{BOB, World};
use http::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

crate::in_both_worlds!(
    a_key_is_shown_once_works_and_stops_when_revoked,
    a_key_never_exceeds_its_users_permissions,
    a_user_goes_on_with_a_key_of_another_server
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

async fn a_user_goes_on_with_a_key_of_another_server(world: World) {
    let server = &world.server;
    let body = json!({ "did": BOB, "permissions": ["lexicons:read"], "unchecked": true });
    let user = server.admin(Method::POST, "/admin/users", Some(&body)).await.body;
    let path = format!("/admin/users/{}/api-keys", user["id"].as_str().unwrap());
    let key = "hv_00112233445566778899aabbccddeeff";
    let carried = json!({
        "name": "deployments", "permissions": ["lexicons:read", "users:read"], "key_prefix": "hv_00112233",
        "key_hash": hex::encode(Sha256::digest(key)),
    });
    let without = |field: &str, value: &str| {
        let mut body = carried.clone();
        body[field] = json!(value);
        body
    };
    for (body, message) in [
        (without("key_prefix", "sk_00112233"), "key_prefix must begin with hv_ or bva_"),
        (without("key_prefix", key), "at most 16 bytes"),
        (without("key_hash", key), "key_hash must be the SHA-256"),
        (without("name", " "), "name must not be blank"),
    ] {
        let answer = server.admin(Method::POST, &path, Some(&body)).await;
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.error().contains(message), "{}", answer.text);
    }
    assert_eq!(server.admin(Method::POST, "/admin/users/nobody/api-keys", Some(&carried)).await.status, 404);
    let made = server.admin(Method::POST, &path, Some(&carried)).await;
    assert_eq!(
        (made.status.as_u16(), &made.body["key_prefix"]),
        (201, &json!("hv_00112233")),
        "{}",
        made.text
    );
    assert!(!made.text.contains(key));
    assert_eq!(server.admin(Method::POST, &path, Some(&carried)).await.status, 409);
    let listed = server.admin(Method::GET, &path, None).await.body;
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["id"]), (1, &made.body["id"]));

    let bearer = format!("Bearer {key}");
    let call = async |method, path: &str, body: Option<&Value>| {
        let body = body.map(Value::to_string);
        server.request(method, path, &[("authorization", &bearer)], body).await.status.as_u16()
    };
    assert_eq!(call(Method::GET, "/admin/lexicons", None).await, 200);
    assert_eq!(call(Method::GET, "/admin/users", None).await, 403, "its user lacks the permission");
    assert_eq!(call(Method::POST, &path, Some(&carried)).await, 403);
    let wrong =
        server.request(Method::GET, "/admin/lexicons", &[("authorization", "Bearer hv_0")], None).await;
    assert_eq!((wrong.status.as_u16(), wrong.error()), (401, "invalid API key"));
}
