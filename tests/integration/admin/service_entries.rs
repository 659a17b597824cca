//! `/admin/service-entries`, and the calls that they permit

use belvedere_protocol::crypto::Algorithm;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, LIST, World};
use crate::support::instance::{Answer, Instance, query_lexicon};

const PATH: &str = "/admin/service-entries";
const OTHER: &str = "com.example.other";

async fn add(server: &Instance, fragment: &str) -> i64 {
    let body = json!({ "fragment_id": fragment, "service_type": "AtprotoLabeler" });
    let answer = server.admin(Method::POST, PATH, Some(&body)).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.body["access_mode"]),
        (201, &json!("all")),
        "{}",
        answer.text
    );
    answer.body["id"].as_i64().unwrap()
}

async fn set(server: &Instance, id: i64, body: Value) {
    let answer = server.admin(Method::PUT, &format!("{PATH}/{id}"), Some(&body)).await;
    assert_eq!(answer.status, 204, "{}", answer.text);
}

crate::in_both_worlds!(
    entries_are_managed,
    service_tokens_are_valid_for_what_their_service_permits,
    tokens_for_the_admin_api_name_an_unlimited_service
);

async fn entries_are_managed(world: World) {
    let world: World = world;
    let server = &world.server;
    assert_eq!(server.admin(Method::GET, PATH, None).await.body, json!([]));
    let (one, two) = (add(server, "#one").await, add(server, "#two").await);
    let create = async |fragment: &str, kind: &str| {
        let body = json!({ "fragment_id": fragment, "service_type": kind });
        server.admin(Method::POST, PATH, Some(&body)).await.status.as_u16()
    };
    assert_eq!(create("#one", "A").await, 409);
    for (fragment, kind) in [
        ("one", "A"),
        ("#", "A"),
        ("", "A"),
        ("#a", ""),
        ("#a", " "),
        ("#a", "a\u{1}"),
        ("#atproto_pds", "A"),
    ] {
        assert_eq!(create(fragment, kind).await, 400, "{fragment} {kind}");
    }
    set(server, one, json!({})).await;
    set(server, one, json!({ "service_type": "Other", "access_mode": "allowlist" })).await;
    let list = server.admin(Method::GET, PATH, None).await;
    assert_eq!(
        (&list.body[0]["fragment_id"], &list.body[0]["service_type"], &list.body[0]["access_mode"]),
        (&json!("#one"), &json!("Other"), &json!("allowlist")),
        "{}",
        list.text
    );
    let put = async |id: &str, body: Value| {
        server.admin(Method::PUT, &format!("{PATH}/{id}"), Some(&body)).await.status.as_u16()
    };
    assert_eq!(put(&one.to_string(), json!({ "fragment_id": "#two" })).await, 409);
    assert_eq!(put(&one.to_string(), json!({ "access_mode": "some" })).await, 400);
    assert_eq!((put("999", json!({})).await, put("x", json!({})).await), (404, 400));

    let xrpcs = async |method: Method, id: i64, ids: Value| {
        server.admin(method, &format!("{PATH}/{id}/xrpcs"), Some(&json!({ "lexicon_ids": ids }))).await
    };
    let bound = async |id: i64| server.admin(Method::GET, &format!("{PATH}/{id}/xrpcs"), None).await.body;
    assert_eq!(xrpcs(Method::POST, one, json!([OTHER, LIST, OTHER])).await.status, 204);
    assert_eq!(xrpcs(Method::POST, one, json!([LIST])).await.status, 204);
    assert_eq!(bound(one).await, json!([LIST, OTHER]));
    assert_eq!(xrpcs(Method::POST, one, json!(["no"])).await.status, 400);
    assert_eq!(xrpcs(Method::POST, 999, json!([LIST])).await.status, 404);
    assert_eq!((bound(999).await, bound(two).await), (json!([]), json!([])));
    let services = async |nsid: &str| {
        let answer = server.admin(Method::GET, &format!("/admin/lexicons/{nsid}/services"), None).await.body;
        answer.as_array().unwrap().iter().map(|entry| entry["fragment_id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(services(LIST).await, ["#one", "#two"]);
    assert_eq!(services("com.example.unbound").await, ["#two"]);
    set(server, two, json!({ "access_mode": "disabled" })).await;
    assert_eq!(services(LIST).await, ["#one"]);
    assert_eq!(xrpcs(Method::DELETE, one, json!([LIST, "com.example.never"])).await.status, 204);
    assert_eq!(services(LIST).await, [""; 0]);

    let delete =
        async |id: i64| server.admin(Method::DELETE, &format!("{PATH}/{id}"), None).await.status.as_u16();
    assert_eq!((delete(one).await, delete(one).await), (204, 404));
    assert_eq!(bound(one).await, json!([]));
    for n in 0..9 {
        add(server, &format!("#s{n}")).await;
    }
    assert_eq!(create("#ten", "A").await, 400, "one too many");
    let events = server.admin(Method::GET, "/admin/events?event_type=service_entry.deleted", None).await;
    assert_eq!(events.body["events"][0]["subject"], one.to_string(), "{}", events.text);
}

async fn service_tokens_are_valid_for_what_their_service_permits(world: World) {
    let world: World = world.with_notes().await;
    let server = &world.server;
    server.upload(query_lexicon(OTHER), None).await;
    let alice = world.plc.person(ALICE, Algorithm::Es256k);
    let call = async |fragment: &str, nsid: &str| -> Answer {
        let token = format!("Bearer {}", alice.token(&format!("{}{fragment}", server.did()), json!({})));
        let headers = [("x-client-key", server.client_key.as_str()), ("authorization", &*token)];
        server.request(Method::GET, &format!("/xrpc/{nsid}"), &headers, None).await
    };
    let statuses = async |fragment: &str| {
        (call(fragment, LIST).await.status.as_u16(), call(fragment, OTHER).await.status.as_u16())
    };
    // Before the set-up there is one service, besides those that are added.
    assert_eq!((statuses("").await, statuses("#bsky_appview").await), ((200, 200), (200, 200)));
    assert_eq!(statuses("#svc").await, (401, 401));
    let id = add(server, "#svc").await;
    assert_eq!((statuses("#svc").await, statuses("#bsky_appview").await), ((200, 200), (200, 200)));

    set(server, id, json!({ "access_mode": "allowlist" })).await;
    assert_eq!(statuses("#svc").await, (401, 401));
    let bind = json!({ "lexicon_ids": [LIST] });
    assert_eq!(server.admin(Method::POST, &format!("{PATH}/{id}/xrpcs"), Some(&bind)).await.status, 204);
    assert_eq!(statuses("#svc").await, (200, 401));
    let denied = call("#svc", OTHER).await;
    assert_eq!(denied.error(), format!("service '#svc' is not authorized for '{OTHER}'"));
    server
        .eventually("the denial is logged", async |server| {
            let events =
                server.admin(Method::GET, "/admin/events?event_type=service_auth.access_denied", None).await;
            let last = &events.body["events"][0];
            last["actor_did"] == ALICE
                && last["subject"] == OTHER
                && last["severity"] == "error"
                && last["detail"]["fragment"] == "#svc"
                && last["detail"]["reason"] == denied.error()
        })
        .await;
    set(server, id, json!({ "access_mode": "disabled" })).await;
    assert_eq!(statuses("#svc").await, (401, 401));

    // The built-in service can be replaced by an entry, and so limited too.
    let own = add(server, "#bsky_appview").await;
    set(server, own, json!({ "access_mode": "disabled" })).await;
    assert_eq!(
        (statuses("#bsky_appview").await, statuses("").await),
        ((401, 401), (401, 401)),
        "no service is left"
    );
}

async fn tokens_for_the_admin_api_name_an_unlimited_service(world: World) {
    let world: World = world;
    let server = &world.server;
    let operator = world.plc.person(crate::support::instance::OPERATOR, Algorithm::Es256);
    let id = add(server, "#svc").await;
    let call = async |fragment: &str| {
        let token = format!("Bearer {}", operator.token(&format!("{}{fragment}", server.did()), json!({})));
        server.request(Method::GET, "/admin/stats", &[("authorization", &*token)], None).await.status.as_u16()
    };
    assert_eq!((call("").await, call("#svc").await, call("#none").await), (200, 200, 401));
    set(server, id, json!({ "access_mode": "allowlist" })).await;
    assert_eq!((call("").await, call("#svc").await), (200, 401));
}
