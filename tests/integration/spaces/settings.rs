//! Creating, changing and deleting spaces.

use http::Method;
use serde_json::json;

use super::{Group, KIND, error};
use crate::fixtures::{ALICE, BOB, World};

crate::in_both_worlds!(a_space_is_created_changed_and_deleted, policies_of_both_generations, a_public_space);

async fn a_space_is_created_changed_and_deleted(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({ "displayName": "Friends", "config": { "theme": "dark" } })).await;
    // Without an identity that could sign for it, the creator is the authority.
    assert_eq!(space, format!("at://{ALICE}/space/{KIND}/main"));
    let get = format!("simplespace.getSpace?space={space}");
    let found = group.get(&group.alice, &get).await.body;
    assert_eq!(found["uri"], space);
    assert_eq!(found["readPolicy"], json!({ "$type": "com.atproto.simplespace.defs#memberListPolicy" }));
    assert_eq!(found["space"]["display_name"], "Friends");
    assert_eq!(found["space"]["config"], json!({ "theme": "dark" }));
    let again =
        group.post(&group.alice, "simplespace.createSpace", json!({ "type": KIND, "skey": "main" })).await;
    assert_eq!(error(&again), (409, "SpaceAlreadyExists"));

    group.join(&space, BOB, true, true).await;
    let change = json!({ "space": space, "displayName": null, "description": "for us" });
    assert_eq!(
        error(&group.post(&group.bob, "simplespace.updateSpace", change.clone()).await),
        (403, "NotSpaceOwner")
    );
    let changed = group.post(&group.alice, "simplespace.updateSpace", change).await.body;
    assert_eq!(changed["space"]["display_name"], json!(null));
    assert_eq!(changed["space"]["description"], "for us");
    assert_eq!(changed["space"]["config"], json!({ "theme": "dark" }));
    group.note(&group.bob, &space, "b").await;

    let delete = json!({ "space": space });
    assert_eq!(
        error(&group.post(&group.bob, "simplespace.deleteSpace", delete.clone()).await),
        (403, "NotSpaceOwner")
    );
    assert_eq!(group.post(&group.alice, "simplespace.deleteSpace", delete).await.status, 200);
    for person in [&group.alice, &group.bob] {
        assert_eq!(error(&group.get(person, &get).await), (404, "SpaceNotFound"));
        assert_eq!(error(&group.note(person, &space, "c").await), (404, "SpaceNotFound"));
    }
    // Its address is not used again: credentials for it would open its successor.
    let again =
        group.post(&group.alice, "simplespace.createSpace", json!({ "type": KIND, "skey": "main" })).await;
    assert_eq!(error(&again), (409, "SpaceAlreadyExists"));
}

async fn policies_of_both_generations(world: World) {
    let group = Group::of(world).await;
    let space = group.space("a", json!({ "mintPolicy": "public", "appAccess": { "type": "open" } })).await;
    let config = group.get(&group.alice, &format!("simplespace.getConfig?space={space}")).await.body;
    assert_eq!(config["mintPolicy"], "public");
    assert_eq!(config["writePolicy"]["$type"], "com.atproto.simplespace.defs#publicPolicy");
    let list = json!({ "$type": "com.atproto.simplespace.defs#allowList", "allowed": ["https://app.example/client.json"] });
    let change = json!({ "space": space, "appAccess": list, "writePolicy":
        { "$type": "com.atproto.simplespace.defs#memberListPolicy" } });
    let config = group.post(&group.alice, "simplespace.updateConfig", change).await.body;
    assert_eq!((&config["appAccess"], &config["mintPolicy"]), (&list, &json!("public")));
    assert_eq!(config["writePolicy"]["$type"], "com.atproto.simplespace.defs#memberListPolicy");
    for (field, value, name) in [
        ("readPolicy", json!({ "$type": "com.example#other" }), "UnsupportedPolicy"),
        ("appAccess", json!({ "type": "some" }), "UnsupportedAppAccess"),
        ("config", json!({ "records_public": true }), "InvalidRequest"),
        ("skey", json!("a b"), "InvalidRequest"),
        ("spaceType", json!("group"), "InvalidRequest"),
        ("displayName", json!("x".repeat(201)), "InvalidRequest"),
    ] {
        let mut body = json!({ "spaceType": KIND, "skey": "b" });
        body[field] = value;
        assert_eq!(
            error(&group.post(&group.alice, "simplespace.createSpace", body).await),
            (400, name),
            "{field}"
        );
    }
    let none = group.post(&group.alice, "simplespace.createSpace", json!({})).await;
    assert_eq!(none.body["message"], "type and skey are required");
}

async fn a_public_space(world: World) {
    let group = Group::of(world).await;
    let public = json!({ "$type": "com.atproto.simplespace.defs#publicPolicy" });
    let space = group
        .space(
            "a",
            json!({ "readPolicy": public, "writePolicy": public, "config": { "membership_public": true } }),
        )
        .await;
    assert_eq!(group.note(&group.carol, &space, "c").await.status, 200);
    let list = group.get(&group.bob, &format!("space.listRecords?space={space}")).await;
    assert_eq!(list.body["records"].as_array().unwrap().len(), 1, "{}", list.text);
    // Its members are public, its records need a user.
    for path in ["simplespace.getSpace", "simplespace.listMembers", "space.listRepos"] {
        assert_eq!(group.anonymous(&format!("{path}?space={space}")).await.status, 200, "{path}");
    }
    let anonymous = group.anonymous(&format!("space.listRecords?space={space}")).await;
    assert_eq!(error(&anonymous), (401, "AuthenticationRequired"));
    let wrong = group.call(None, Method::POST, "com.atproto.space.listRecords", Some(json!({}))).await;
    assert_eq!(wrong.status, 404);
}
