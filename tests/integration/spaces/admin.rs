//! `/admin/spaces` and `/admin/accounts/{did}/spaces`: spaces as operators see them.

use http::Method;
use serde_json::{Value, json};

use super::{Group, admin_path, error};
use crate::fixtures::{ALICE, BOB, World};
use crate::support::instance::OPERATOR;

crate::in_both_worlds!(
    operators_find_spaces,
    operators_see_a_space_without_its_records,
    operators_change_and_delete_spaces,
    each_permission_opens_its_own_endpoints
);

fn uris(list: &Value) -> Vec<&str> {
    list["spaces"].as_array().unwrap().iter().map(|space| space["uri"].as_str().unwrap()).collect()
}

async fn operators_find_spaces(world: World) {
    let group = Group::of(world).await;
    let server = &group.world.server;
    let (a, b) = (group.space("a", json!({})).await, group.space("b", json!({ "displayName": "B" })).await);
    let get = async |path: &str| server.admin(Method::GET, path, None).await;
    let first = get("/admin/spaces?limit=1").await;
    assert_eq!(uris(&first.body), [&a]);
    let rest = get(&format!("/admin/spaces?cursor={}", first.body["cursor"].as_str().unwrap())).await;
    assert_eq!((uris(&rest.body), &rest.body["cursor"]), (vec![&*b], &Value::Null));
    assert_eq!(
        (&rest.body["spaces"][0]["display_name"], &rest.body["spaces"][0]["creator"]),
        (&json!("B"), &json!(ALICE))
    );
    for (search, found) in [
        (b.as_str(), vec![&*b]),
        (ALICE, vec![&*a, &*b]),
        (BOB, vec![]),
        ("at://did:plc:x/space/com.example.group/x", vec![]),
    ] {
        assert_eq!(uris(&get(&format!("/admin/spaces?search={search}")).await.body), found, "{search}");
    }
    for invalid in
        ["search=friends", "search=did:x", "cursor=at://did:plc:x/space/com.example.group/x", "limit=x"]
    {
        assert_eq!(get(&format!("/admin/spaces?{invalid}")).await.status, 400, "{invalid}");
    }
    group.join(&b, BOB, true, false).await;
    assert_eq!(uris(&get(&format!("/admin/accounts/{BOB}/spaces")).await.body), [&b]);
    assert_eq!(get("/admin/accounts/bob/spaces").await.status, 400);
}

async fn operators_see_a_space_without_its_records(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({ "description": "for us", "config": { "theme": "dark" } })).await;
    group.join(&space, BOB, true, true).await;
    assert_eq!(group.note(&group.bob, &space, "a").await.status, 200);
    let invite = json!({ "space": space, "access": "read", "maxUses": 3 });
    let invite =
        group.call(Some(&group.alice), Method::POST, "dev.service.space.createInvite", Some(invite)).await;
    let get = async |path: &str| group.admin(Method::GET, &space, path, None).await;
    let found = get("").await.body;
    assert_eq!(
        (&found["uri"], &found["description"], &found["config"]["theme"]),
        (&json!(space), &json!("for us"), &json!("dark"))
    );
    assert_eq!(
        found["counts"],
        json!({ "members": 2, "writers": 1, "records": 1, "registrations": 0, "invites": 1 })
    );
    assert!(found["rev"].is_string() && found["is_hosted"] == true, "{found}");
    let members = get("/members?limit=1").await.body;
    let rest = get(&format!("/members?cursor={}", members["cursor"].as_str().unwrap())).await.body;
    assert_eq!(
        (&members["members"][0]["member"], &rest["members"][0]["member"]),
        (&json!(ALICE), &json!(BOB))
    );
    assert_eq!(
        (&rest["members"][0]["reads"], &rest["members"][0]["writes"]),
        (&json!("everything"), &json!(true))
    );
    let invites = get("/invites").await;
    assert_eq!(invites.body["invites"][0]["id"], invite.body["inviteId"]);
    assert_eq!(invites.body["invites"][0]["max_uses"], 3);
    assert!(!invites.text.contains(invite.body["token"].as_str().unwrap()), "{}", invites.text);
    assert_eq!(get("/registrations").await.body, json!([]));
    for (path, status) in [("/members?limit=x", 400), ("/invites?cursor=x", 400)] {
        assert_eq!(get(path).await.status, status, "{path}");
    }
    for missing in ["", "/members", "/invites", "/registrations"] {
        let answer = group.admin(Method::GET, &format!("{space}x"), missing, None).await;
        assert_eq!(error(&answer), (404, "SpaceNotFound"), "{missing}");
        let path = format!("/admin/spaces/{ALICE}/group/main{missing}");
        assert_eq!(group.world.server.admin(Method::GET, &path, None).await.status, 400, "{missing}");
    }
}

async fn operators_change_and_delete_spaces(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({ "description": "for us" })).await;
    group.join(&space, BOB, true, true).await;
    let policy = json!({ "$type": "com.atproto.simplespace.defs#publicPolicy" });
    let change = json!({ "display_name": "Friends", "description": null, "read_policy": policy });
    let changed = group.admin(Method::PATCH, &space, "", Some(&change)).await.body;
    assert_eq!((&changed["display_name"], &changed["description"]), (&json!("Friends"), &Value::Null));
    assert_eq!((&changed["read_policy"], changed["write_policy"] == policy), (&policy, false));
    let wrong =
        group.admin(Method::PATCH, &space, "", Some(&json!({ "read_policy": { "$type": "x" } }))).await;
    assert_eq!(error(&wrong), (400, "UnsupportedPolicy"));

    let remove = async |member: &str| {
        group.admin(Method::DELETE, &space, &format!("/members?member={member}"), None).await
    };
    assert_eq!(remove(BOB).await.status, 204);
    for (member, status) in [(BOB, 404), (ALICE, 400), ("bob", 400)] {
        assert_eq!(remove(member).await.status, status, "{member}");
    }
    let invite = json!({ "space": space });
    let invite =
        group.call(Some(&group.alice), Method::POST, "dev.service.space.createInvite", Some(invite)).await;
    let id = invite.body["inviteId"].as_str().unwrap();
    assert_eq!(group.admin(Method::DELETE, &space, &format!("/invites/{id}"), None).await.status, 204);
    assert_eq!(group.admin(Method::DELETE, &space, "/invites/none", None).await.status, 404);
    let accept = json!({ "token": invite.body["token"] });
    let accept =
        group.call(Some(&group.bob), Method::POST, "dev.service.space.acceptInvite", Some(accept)).await;
    assert_eq!(accept.status, 400, "{}", accept.text);

    assert_eq!(group.admin(Method::DELETE, &space, "", None).await.status, 204);
    assert_eq!(error(&group.admin(Method::DELETE, &space, "", None).await), (404, "SpaceNotFound"));
    assert_eq!(error(&group.admin(Method::GET, &space, "", None).await), (404, "SpaceNotFound"));
    let events = group.world.server.admin(Method::GET, "/admin/events?category=space", None).await.body;
    let events: Vec<_> = events["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| (&event["event_type"], &event["subject"]))
        .collect();
    let kinds =
        ["space.deleted", "space.invite_revoked", "space.member_removed", "space.updated"].map(Value::from);
    let space = json!(space);
    assert_eq!(events, kinds.iter().map(|kind| (kind, &space)).collect::<Vec<_>>());
}

async fn each_permission_opens_its_own_endpoints(world: World) {
    let group = Group::of(world).await;
    let (server, space) = (&group.world.server, group.space("main", json!({})).await);
    let path = admin_path(&space);
    let calls = [
        (Method::GET, "/admin/spaces".to_owned(), "spaces:read"),
        (Method::GET, format!("/admin/accounts/{ALICE}/spaces"), "spaces:read"),
        (Method::GET, path.clone(), "spaces:read"),
        (Method::GET, format!("{path}/members"), "spaces:read"),
        (Method::GET, format!("{path}/invites"), "spaces:read"),
        (Method::GET, format!("{path}/registrations"), "spaces:read"),
        (Method::PATCH, path.clone(), "spaces:update"),
        (Method::DELETE, format!("{path}/members?member={BOB}"), "spaces:manage-members"),
        (Method::DELETE, format!("{path}/invites/x"), "spaces:manage-invites"),
        (Method::DELETE, path, "spaces:delete"),
    ];
    for held in
        ["spaces:read", "spaces:update", "spaces:manage-members", "spaces:manage-invites", "spaces:delete"]
    {
        let key = format!("Bearer {}", server.create_key(&["--did", OPERATOR, "--permissions", held]));
        for (method, path, needed) in &calls {
            let headers = [("authorization", &*key), ("content-type", "application/json")];
            let answer = server.request(method.clone(), path, &headers, Some("{}".to_owned())).await;
            assert_eq!(answer.status == 403, held != *needed, "{held}: {method} {path} {}", answer.text);
        }
    }
}
