//! Writes of scripts, for callers with different apps.

use super::*;
use crate::fixtures::{ALICE, BOB};
use crate::oauth::device::{App, Device, pds};
use crate::spaces::{KIND, error};
use crate::support::instance::procedure_lexicon;
use crate::support::oauth_pds::OauthPds;

crate::in_both_worlds!(
    a_script_writes_to_its_callers_repo,
    an_app_needs_a_scope_for_what_its_script_does,
    a_script_writes_only_with_a_session
);

const WRITE: &str = "com.example.write";

/// Calls the function that the field `what` names.
const WRITING: &str = r#"
local function note(text)
  local made = Record("com.example.note", { text = text }):set_space(input.of)
  return input.rkey and made:set_rkey(input.rkey) or made
end

local function shown(record)
  return { uri = record._uri, cid = record._cid, space = record._space, rkey = record._rkey, text = record.text }
end

local writes = {
  create = function() return shown(note(input.text):save()) end,
  change = function()
    local record = Record.load(input.uri)
    record.text = input.text
    return shown(record:save())
  end,
  delete = function() return shown(Record.load(input.uri):delete()) end,
  delete_twice = function()
    local one, other = Record.load(input.uri), Record.load(input.uri)
    one:delete()
    return shown(other:delete())
  end,
  save_all = function() return Record.save_all({ note("x"), note("y") }) end,
  mixed = function() return Record.save_all({ note("x"), Record("com.example.note", { text = "y" }) }) end,
  other_repo = function() return shown(note("x"):set_repo(input.did):save()) end,
  save_local = function() return shown(note("x"):save_local()) end,
  delete_local = function() return Record.load(input.uri):delete_local() end,
  delete_row = function() return Record.delete_local(input.uri) end,
  moved = function() return shown(Record.load(input.uri):set_space(input.of)) end,
}

function handle()
  return writes[input.what]()
end"#;

struct Writing {
    stage: Stage,
    pds: OauthPds,
    bob: Device,
}

impl Writing {
    /// Bob is a member, with an app that has these scopes.
    async fn with_scopes(world: World, scopes: &str) -> Self {
        let group = Group::of(world).await;
        // Before the first call, with which the server learns where the PDS is.
        let pds = pds(&group.world, &[ALICE, BOB]).await;
        let stage = Stage::with(group).await;
        let server = &stage.group.world.server;
        server.upload(procedure_lexicon(WRITE), Some(NOTE)).await;
        server.bind_to(&format!("xrpc.procedure:{WRITE}"), WRITING).await;
        stage.group.join(&stage.space, BOB, true, true).await;
        let bob = session(&stage.group, &pds, "app", scopes).await;
        Self { stage, pds, bob }
    }

    async fn write(&self, what: &str, more: Value) -> Answer {
        let mut body = json!({ "what": what, "of": self.stage.space });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let server = &self.stage.group.world.server;
        self.bob.request(server, Method::POST, &format!("/xrpc/{WRITE}"), Some(&body)).await
    }

    async fn read(&self, what: &str) -> Answer {
        let path = format!("/xrpc/{READ}?what={what}");
        self.bob.request(&self.stage.group.world.server, Method::GET, &path, None).await
    }
}

/// A session of Bob's at a new app.
async fn session(group: &Group, pds: &OauthPds, name: &str, scopes: &str) -> Device {
    let server = &group.world.server;
    let client = json!({ "name": name, "client_id_url": format!("https://{name}.example/client.json"),
        "client_uri": format!("https://{name}.example"), "redirect_uris": [], "scopes": scopes });
    App::with(server, client).await.device(server, pds, BOB, json!({ "scopes": scopes })).await
}

async fn a_script_writes_to_its_callers_repo(world: World) {
    let scopes = format!("atproto space:{KIND}?authority=*&collection={NOTE}");
    let writing = Writing::with_scopes(world, &scopes).await;
    let space = &writing.stage.space;
    let created = writing.write("create", json!({ "text": "hi", "rkey": "b" })).await;
    assert_eq!(created.status, 200, "{}", created.text);
    let uri = format!("{space}/{BOB}/{NOTE}/b");
    assert_eq!(
        (&created.body["uri"], &created.body["space"], &created.body["rkey"]),
        (&json!(uri), &json!(space), &json!("b"))
    );
    // It is there for other readers, and not in the index.
    let alice = &writing.stage.group.alice;
    assert_eq!(writing.stage.value(alice, &format!("get&uri={uri}")).await["text"], "hi");
    assert_eq!(writing.stage.group.world.server.records().await, 0);
    assert!(writing.pds.requests("/xrpc/com.atproto.repo").is_empty());

    let changed = writing.write("change", json!({ "uri": uri, "text": "new" })).await;
    assert_eq!((changed.status.as_u16(), &changed.body["text"]), (200, &json!("new")), "{}", changed.text);
    assert_ne!(changed.body["cid"], created.body["cid"]);
    let exists = writing.write("create", json!({ "text": "hi", "rkey": "b" })).await;
    assert_eq!(error(&exists), (409, "RecordAlreadyExists"));
    let all = writing.write("save_all", json!({})).await;
    assert_eq!((all.status.as_u16(), all.body.as_array().map(Vec::len)), (200, Some(2)), "{}", all.text);
    assert_eq!(writing.stage.value(alice, &format!("count&of={space}&did={BOB}")).await, 3);
    let deleted = writing.write("delete_twice", json!({ "uri": uri })).await;
    assert_eq!((deleted.status.as_u16(), &deleted.body), (200, &json!({ "space": space, "text": "new" })));
    assert_eq!(writing.stage.value(alice, &format!("get&uri={uri}")).await, Value::Null);

    // The record of another, another repo, and what a space does not have.
    let of_alice = format!("{space}/{ALICE}/{NOTE}/a");
    for (what, more) in [
        ("change", json!({ "uri": of_alice, "text": "x" })),
        ("delete", json!({ "uri": of_alice })),
        ("other_repo", json!({ "did": ALICE })),
        ("mixed", json!({})),
        ("save_local", json!({})),
        ("delete_local", json!({ "uri": of_alice })),
        ("delete_row", json!({ "uri": of_alice })),
        ("moved", json!({ "uri": of_alice })),
        ("create", json!({ "of": "nonsense", "text": "x" })),
        ("create", json!({ "of": format!("{space}/{ALICE}/{NOTE}/a"), "text": "x" })),
    ] {
        let refused = writing.write(what, more.clone()).await;
        assert_eq!(error(&refused), (500, "script execution failed"), "{what} {more}: {}", refused.text);
    }
    let invalid = writing.write("create", json!({ "text": 1.5 })).await;
    assert_eq!(error(&invalid), (400, "InvalidRequest"), "{}", invalid.text);
    assert_eq!(writing.stage.value(alice, &format!("get&uri={of_alice}")).await["text"], "a");
    assert_eq!(writing.stage.value(alice, &format!("count&of={space}")).await, 3);

    // Access ends with the membership, and the right to write with it.
    writing.stage.group.join(space, BOB, true, false).await;
    let refused = writing.write("create", json!({ "text": "x" })).await;
    assert_eq!(error(&refused), (403, "NotAuthorized"));
    let remove = json!({ "space": space, "did": BOB });
    assert_eq!(writing.stage.group.post(alice, "simplespace.removeMember", remove).await.status, 200);
    for of in [space.clone(), space.replace("/main", "/other")] {
        let refused = writing.write("create", json!({ "of": of, "text": "x" })).await;
        // Alice's spaces are those of another host, except for the ones that are here.
        let expected = if of == *space { (404, "SpaceNotFound") } else { (200, "") };
        assert_eq!(error(&refused), expected, "{of}: {}", refused.text);
    }
}

async fn an_app_needs_a_scope_for_what_its_script_does(world: World) {
    let scopes = format!("atproto space:{KIND}?authority=*&collection={NOTE}&action=read_self&action=create");
    let writing = Writing::with_scopes(world, &scopes).await;
    let (space, refused) = (&writing.stage.space, (403, "InsufficientScope"));
    let created = writing.write("create", json!({ "text": "hi", "rkey": "b" })).await;
    assert_eq!(created.status, 200, "{}", created.text);
    let uri = format!("{space}/{BOB}/{NOTE}/b");
    assert_eq!(writing.read(&format!("get&uri={uri}")).await.body["text"], "hi");
    assert_eq!(error(&writing.write("change", json!({ "uri": uri, "text": "new" })).await), refused);
    assert_eq!(error(&writing.write("delete", json!({ "uri": uri })).await), refused);
    for path in reads::paths(space) {
        assert_eq!(error(&writing.read(&path).await), refused, "{path}");
    }
    assert_eq!(writing.read(&format!("space&space={space}")).await.text, "null");

    // Bob's other app has no scope for spaces.
    let other = session(&writing.stage.group, &writing.pds, "other", "atproto").await;
    let other = Writing { bob: other, ..writing };
    for path in reads::paths(&other.stage.space) {
        assert_eq!(error(&other.read(&path).await), refused, "{path}");
    }
    assert_eq!(error(&other.read(&format!("get&uri={uri}")).await), refused);
    assert_eq!(error(&other.write("create", json!({ "text": "x" })).await), refused);
}

async fn a_script_writes_only_with_a_session(world: World) {
    let writing = Writing::with_scopes(world, "atproto").await;
    let Stage { group, space } = &writing.stage;
    // A service token is no session.
    let body = json!({ "what": "create", "of": space, "text": "x" });
    let refused = group.call(Some(&group.bob), Method::POST, WRITE, Some(body)).await;
    assert_eq!(refused.status, 401, "{}", refused.text);
    // A query has none, with any caller.
    let server = &group.world.server;
    server.upload(query_lexicon("com.example.asks"), Some(NOTE)).await;
    let source =
        "function handle() return Record(collection, { text = 'x' }):set_space(params.of):save() end";
    server.bind("com.example.asks", source).await;
    let path = format!("/xrpc/com.example.asks?of={space}");
    let refused = writing.bob.request(server, Method::GET, &path, None).await;
    assert_eq!(error(&refused), (500, "script execution failed"));
    assert_eq!(writing.stage.value(&group.alice, &format!("count&of={space}")).await, 1);
}
