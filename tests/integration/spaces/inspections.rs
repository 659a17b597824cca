//! Inspections: operators see records of spaces with the setting, a grant, and a trace.

use http::Method;
use serde_json::{Value, json};

use super::{Group, admin_path, error};
use crate::fixtures::{ALICE, BOB, World};
use crate::support::instance::{Answer, OPERATOR};

crate::in_both_worlds!(
    no_record_is_shown_without_the_setting_and_a_grant,
    every_grant_and_every_read_is_an_event,
    records_of_hidden_accounts_need_a_grant_for_the_account,
    an_account_is_inspected_in_all_spaces_page_by_page,
    grants_are_checked,
    inspections_need_their_permissions
);

const SETTING: &str = "/admin/settings/space_inspector_enabled";

struct Stage {
    group: Group,
    space: String,
}

impl Stage {
    /// Alice's space with a note by Bob, and the setting.
    async fn of(world: World, setting: &str) -> Self {
        let group = Group::of(world).await;
        let space = group.space("main", json!({})).await;
        group.join(&space, BOB, true, true).await;
        assert_eq!(group.note(&group.bob, &space, "secret").await.status, 200);
        let stage = Self { group, space };
        stage.set(setting).await;
        stage
    }

    async fn set(&self, value: &str) {
        let set = self.group.world.server.admin(Method::PUT, SETTING, Some(&json!({ "value": value }))).await;
        assert_eq!(set.status, 204, "{}", set.text);
    }

    async fn grant(&self, scope: &str, subject: &str, more: Value) -> Answer {
        let mut body = json!({ "scope": scope, "subject": subject, "reason": "a report", "expires_in": 600 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.group.world.server.admin(Method::POST, "/admin/spaces/inspections", Some(&body)).await
    }

    async fn records(&self, query: &str) -> Answer {
        self.group.admin(Method::GET, &self.space, &format!("/records{query}"), None).await
    }

    async fn of_account(&self, query: &str) -> Answer {
        let path = format!("/admin/accounts/{BOB}/space-records{query}");
        self.group.world.server.admin(Method::GET, &path, None).await
    }

    async fn events(&self) -> Vec<Value> {
        let events = self.group.world.server.admin(Method::GET, "/admin/events?category=space", None).await;
        events.body["events"].as_array().unwrap().clone()
    }
}

async fn no_record_is_shown_without_the_setting_and_a_grant(world: World) {
    let stage = Stage::of(world, "false").await;
    let all = async |name: &str| {
        for answer in [
            stage.records("").await,
            stage.records(&format!("?repo={BOB}")).await,
            stage.of_account("").await,
        ] {
            assert_eq!(error(&answer), (403, name), "{}", answer.text);
            assert!(!answer.text.contains("secret"), "{}", answer.text);
        }
    };
    all("SpaceInspectorDisabled").await;
    assert_eq!(error(&stage.grant("space", &stage.space, json!({})).await), (403, "SpaceInspectorDisabled"));
    stage.set("true").await;
    all("SpaceAccessGrantRequired").await;
    // Grants to others, for others, and those that have ended.
    let other = stage.group.space("other", json!({})).await;
    for (scope, subject, operator) in [
        ("space", &*stage.space, BOB),
        ("account", BOB, BOB),
        ("space", &*other, OPERATOR),
        ("account", ALICE, OPERATOR),
    ] {
        let granted = stage.grant(scope, subject, json!({ "operator": operator })).await;
        assert_eq!(granted.status, 201, "{}", granted.text);
    }
    all("SpaceAccessGrantRequired").await;
    let granted = stage.grant("space", &stage.space, json!({})).await.body;
    assert_eq!(stage.records("").await.body["records"][0]["value"]["text"], "secret");
    assert_eq!(error(&stage.of_account("").await), (403, "SpaceAccessGrantRequired"));
    let revoke = format!("/admin/spaces/inspections/{}", granted["id"].as_str().unwrap());
    assert_eq!(stage.group.world.server.admin(Method::DELETE, &revoke, None).await.status, 204);
    all("SpaceAccessGrantRequired").await;
    stage.grant("space", &stage.space, json!({})).await;
    stage.grant("account", BOB, json!({})).await;
    assert_eq!(stage.records(&format!("?repo={BOB}")).await.status, 200);
    stage.group.world.execute("UPDATE space_inspections SET expires_at = 1").await;
    all("SpaceAccessGrantRequired").await;
    stage.grant("account", BOB, json!({})).await;
    assert_eq!(stage.of_account("").await.status, 200);
    stage.set("false").await;
    all("SpaceInspectorDisabled").await;
}

async fn every_grant_and_every_read_is_an_event(world: World) {
    let stage = Stage::of(world, "true").await;
    let granted = stage.grant("space", &stage.space, json!({ "reason": " a report " })).await.body;
    assert_eq!((&granted["operator"], &granted["granted_by"]), (&json!(OPERATOR), &json!(OPERATOR)));
    let shown = stage.records("").await.body;
    let uri = format!("{}/{BOB}/com.example.note/secret", stage.space);
    assert_eq!(shown["records"][0]["uri"], uri);
    let revoke = format!("/admin/spaces/inspections/{}", granted["id"].as_str().unwrap());
    stage.group.world.server.admin(Method::DELETE, &revoke, None).await;
    let id = &granted["id"];
    let expected = [
        ("space.inspection_revoked", json!({ "operator": OPERATOR, "id": id })),
        ("space.records_inspected", json!({ "id": id, "reason": "a report", "uris": [uri] })),
        (
            "space.inspection_granted",
            json!({ "operator": OPERATOR, "id": id, "reason": "a report", "expires_at": granted["expires_at"] }),
        ),
    ];
    let events = stage.events().await;
    assert_eq!(events.len(), expected.len(), "{events:?}");
    for (event, (kind, detail)) in events.iter().zip(expected) {
        assert_eq!((&event["event_type"], &event["detail"]), (&json!(kind), &detail));
        assert_eq!((&event["actor_did"], &event["subject"]), (&json!(OPERATOR), &json!(stage.space)));
    }
    let list = stage.group.world.server.admin(Method::GET, "/admin/spaces/inspections", None).await.body;
    assert_eq!((&list["inspections"][0]["id"], list["inspections"][0]["revoked_at"].is_string()), (id, true));
}

async fn records_of_hidden_accounts_need_a_grant_for_the_account(world: World) {
    let stage = Stage::of(world, "true").await;
    stage.group.note(&stage.group.alice, &stage.space, "other").await;
    stage.group.world.execute("UPDATE dids SET status = 2 WHERE did LIKE 'did:plc:bob%'").await;
    stage.grant("space", &stage.space, json!({})).await;
    let shown = stage.records("").await;
    assert!(shown.text.contains("other") && !shown.text.contains("secret"), "{}", shown.text);
    let of_bob = stage.records(&format!("?repo={BOB}")).await;
    assert_eq!(error(&of_bob), (403, "SpaceAccessGrantRequired"));
    stage.grant("account", BOB, json!({})).await;
    assert!(stage.records(&format!("?repo={BOB}")).await.text.contains("secret"));
    assert!(stage.of_account("").await.text.contains("secret"));
    assert!(!stage.records("").await.text.contains("secret"), "the list of all authors stays without them");
}

async fn an_account_is_inspected_in_all_spaces_page_by_page(world: World) {
    let stage = Stage::of(world, "true").await;
    let other = stage.group.space("other", json!({})).await;
    stage.group.join(&other, BOB, true, true).await;
    for (space, rkey) in [(&stage.space, "b"), (&other, "c"), (&other, "d")] {
        assert_eq!(stage.group.note(&stage.group.bob, space, rkey).await.status, 200);
    }
    stage.grant("account", BOB, json!({})).await;
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = stage.of_account(&format!("?limit=1{cursor}")).await.body;
        seen.extend(page["records"].as_array().unwrap().iter().map(|record| record["uri"].clone()));
        let Some(next) = page["cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    let uri = |space: &str, rkey: &str| json!(format!("{space}/{BOB}/com.example.note/{rkey}"));
    assert_eq!(
        seen,
        [uri(&stage.space, "b"), uri(&stage.space, "secret"), uri(&other, "c"), uri(&other, "d")]
    );
    // Each event has the records of its page, and no others.
    let pages: Vec<usize> = stage
        .events()
        .await
        .iter()
        .filter_map(|event| event["detail"]["uris"].as_array().map(Vec::len))
        .collect();
    assert_eq!(pages, [1; 4]);
    let page = stage.records(&format!("?repo={BOB}&limit=1")).await.body;
    let rest = stage.records(&format!("?repo={BOB}&cursor={}", page["cursor"].as_str().unwrap())).await.body;
    assert_eq!((&rest["records"][0]["uri"], &rest["cursor"]), (&uri(&stage.space, "secret"), &Value::Null));
    assert_eq!(stage.of_account("?cursor=x").await.status, 400);
    // A deleted space shows nothing.
    assert_eq!(stage.group.admin(Method::DELETE, &other, "", None).await.status, 204);
    assert_eq!(stage.of_account("").await.body["records"].as_array().unwrap().len(), 2);
}

async fn grants_are_checked(world: World) {
    let stage = Stage::of(world, "true").await;
    for (change, status) in [
        (json!({ "reason": " " }), 400),
        (json!({ "reason": "x".repeat(2001) }), 400),
        (json!({ "expires_in": 59 }), 400),
        (json!({ "expires_in": 86_401 }), 400),
        (json!({ "scope": "all" }), 400),
        (json!({ "subject": "at://did:plc:x" }), 400),
        (json!({ "scope": "account", "subject": "bob" }), 400),
        (json!({ "operator": "bob" }), 400),
        (json!({ "subject": format!("at://{ALICE}/space/com.example.group/none") }), 404),
        (json!({ "reason": "x".repeat(2000), "expires_in": 86_400 }), 201),
    ] {
        let answer = stage.grant("space", &stage.space, change.clone()).await;
        assert_eq!(answer.status, status, "{change}: {}", answer.text);
    }
    let none = stage.group.world.server.admin(Method::DELETE, "/admin/spaces/inspections/none", None).await;
    assert_eq!(none.status, 404);
}

async fn inspections_need_their_permissions(world: World) {
    let stage = Stage::of(world, "true").await;
    let server = &stage.group.world.server;
    let grant = json!({ "scope": "account", "subject": BOB, "reason": "x", "expires_in": 60 }).to_string();
    let calls = [
        (Method::GET, "/admin/spaces/inspections".to_owned(), "spaces:read"),
        (Method::POST, "/admin/spaces/inspections".to_owned(), "spaces:manage-credentials"),
        (Method::DELETE, "/admin/spaces/inspections/none".to_owned(), "spaces:manage-credentials"),
        (Method::GET, format!("{}/records", admin_path(&stage.space)), "spaces:manage-records"),
        (Method::GET, format!("/admin/accounts/{BOB}/space-records"), "spaces:manage-records"),
    ];
    for held in ["spaces:read", "spaces:manage-credentials", "spaces:manage-records"] {
        let key = format!("Bearer {}", server.create_key(&["--did", OPERATOR, "--permissions", held]));
        for (method, path, needed) in &calls {
            let headers = [("authorization", &*key), ("content-type", "application/json")];
            let answer = server.request(method.clone(), path, &headers, Some(grant.clone())).await;
            let is_refused = answer.text.contains("insufficient permissions");
            assert_eq!(is_refused, held != *needed, "{held}: {method} {path} {}", answer.text);
        }
    }
}
