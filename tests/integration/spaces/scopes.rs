//! The scopes of the app that a user calls with.

use http::Method;
use serde_json::{Value, json};

use super::{Group, KIND, error};
use crate::fixtures::{ALICE, World};
use crate::oauth::device::{App, Device, pds};
use crate::support::instance::Answer;
use crate::support::oauth_pds::OauthPds;

crate::in_both_worlds!(
    an_app_needs_a_scope_for_each_action,
    a_permission_set_grants_spaces_only_while_they_are_on
);

const NOTE: &str = "com.example.note";

struct Stage {
    group: Group,
    device: Device,
}

impl Stage {
    async fn post(&self, method: &str, body: Value) -> Answer {
        let path = format!("/xrpc/com.atproto.{method}");
        self.device.request(&self.group.world.server, Method::POST, &path, Some(&body)).await
    }

    async fn get(&self, method: &str) -> Answer {
        let path = format!("/xrpc/com.atproto.{method}");
        self.device.request(&self.group.world.server, Method::GET, &path, None).await
    }

    async fn write(&self, method: &str, rkey: &str) -> (u16, String) {
        let space = format!("at://{ALICE}/space/{KIND}/main");
        let body = json!({ "space": space, "collection": NOTE, "rkey": rkey, "record": { "text": "x" } });
        let answer = self.post(&format!("space.{method}"), body).await;
        let (status, name) = error(&answer);
        (status, name.to_owned())
    }
}

/// A session of Alice's with these scopes.
async fn with_scopes(group: Group, pds: &OauthPds, scopes: &str) -> Stage {
    let server = &group.world.server;
    let client = json!({ "name": "app", "client_id_url": "https://app.example/client.json",
        "client_uri": "https://app.example", "redirect_uris": [], "scopes": scopes });
    let app = App::with(server, client).await;
    let device = app.device(server, pds, ALICE, json!({ "scopes": scopes })).await;
    Stage { group, device }
}

async fn an_app_needs_a_scope_for_each_action(world: World) {
    let group = Group::of(world).await;
    // Before the first call, with which the server learns where Alice's PDS is.
    let pds = pds(&group.world, &[ALICE]).await;
    let space = group.space("main", json!({})).await;
    group.note(&group.alice, &space, "a").await;
    let scopes = format!("atproto space:{KIND}?collection={NOTE}&action=read_self&action=create");
    let stage = with_scopes(group, &pds, &scopes).await;
    let refused = (403, "InsufficientScope".to_owned());
    let done = (200, String::new());
    assert_eq!(stage.write("createRecord", "b").await, done);
    assert_eq!(stage.write("putRecord", "c").await, done);
    // The record exists, so that a put updates it.
    assert_eq!(stage.write("putRecord", "c").await, refused);
    assert_eq!(stage.write("deleteRecord", "c").await, refused);
    assert_eq!(stage.write("createRecord", "c").await, (409, "RecordAlreadyExists".to_owned()));
    let own = stage.get(&format!("space.listRecords?space={space}&collection={NOTE}&repo={ALICE}")).await;
    assert_eq!(own.body["records"].as_array().unwrap().len(), 3, "{}", own.text);
    let all = stage.get(&format!("space.listRecords?space={space}&collection={NOTE}")).await;
    assert_eq!(error(&all), (403, "InsufficientScope"));
    assert_eq!(
        all.body["message"],
        format!("the app has no scope for this: it needs space:{KIND}?collection={NOTE}&action=read")
    );
    let update = stage.post("simplespace.updateSpace", json!({ "space": space, "description": "x" })).await;
    assert_eq!(error(&update), (403, "InsufficientScope"));
    let created = stage.post("simplespace.createSpace", json!({ "spaceType": KIND, "skey": "b" })).await;
    assert_eq!(error(&created), (403, "InsufficientScope"));
}

async fn a_permission_set_grants_spaces_only_while_they_are_on(world: World) {
    let pds = pds(&world, &[ALICE]).await;
    let entry = json!({ "type": "permission", "resource": "space", "spaceType": KIND, "authority": "*",
        "collection": [NOTE], "action": ["read"] });
    let repo = json!({ "type": "permission", "resource": "repo", "collection": [NOTE] });
    let set = json!({ "lexicon": 1, "id": "com.example.access", "defs": { "main": {
        "type": "permission-set", "title": "Access", "detail": "Access", "permissions": [entry, repo] } } });
    world.server.upload(set, None).await;
    let client = json!({ "name": "app", "client_id_url": "https://app.example/client.json",
        "client_uri": "https://app.example", "redirect_uris": [], "scopes": "atproto include:com.example.access" });
    let app = App::with(&world.server, client).await;
    let narrow = format!("atproto space:{KIND}?authority=*&collection={NOTE}&action=read");
    let register = async |world: &World, scopes: &str| {
        let (provision, _) = app.provision(&world.server, &[], &json!({})).await;
        let (access, refresh) = pds.grant(ALICE);
        let body = json!({ "provision_id": provision, "did": ALICE, "access_token": access,
            "refresh_token": refresh, "scopes": scopes });
        app.post(&world.server, "/oauth/sessions", &[], &body).await
    };
    let refused = register(&world, &narrow).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(refused.error().contains("is not allowed for this client"), "{}", refused.text);
    // The other permissions of the set count.
    assert_eq!(register(&world, &format!("atproto repo:{NOTE}")).await.status, 201);
    let group = Group::of(world).await;
    let registered = register(&group.world, &narrow).await;
    assert_eq!(registered.status, 201, "{}", registered.text);
    let off = json!({ "value": "false" });
    let set =
        group.world.server.admin(Method::PUT, "/admin/settings/feature.spaces_enabled", Some(&off)).await;
    assert_eq!(set.status, 204);
    assert_eq!(register(&group.world, &narrow).await.status, 400);
}
