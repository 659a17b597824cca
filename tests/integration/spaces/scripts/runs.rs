//! Runs that are no call of a user, and those while spaces are off.

use super::*;
use crate::fixtures::{ALICE, BOB, NOTES};
use crate::oauth::device::{App, Device, pds};
use crate::spaces::{KIND, error};
use crate::support::instance::procedure_lexicon;

crate::in_both_worlds!(
    a_job_sees_what_its_creator_may_read_then,
    an_event_has_no_caller,
    a_dry_run_sees_no_space,
    while_spaces_are_off_there_is_none,
    the_event_of_a_failure_has_nothing_for_a_space,
    broken_addresses_are_errors_of_the_script,
    the_index_has_nothing_of_a_space
);

const START: &str = "com.example.start";

/// Creates a job, which reads the note until it can't.
async fn jobs(group: &Group) {
    let server = &group.world.server;
    server.upload(procedure_lexicon(START), Some(NOTE)).await;
    let start = "function handle() return { id = jobs.create('watch', input, { auth = input.auth }) } end";
    server.bind_to(&format!("xrpc.procedure:{START}"), start).await;
    let watch = r#"
        function handle()
            local ok, found = pcall(db.get, job.input.uri)
            if not ok then
                local function called(what) return xrpc.query("com.example.read", { what = what, uri = job.input.uri, space = job.input.of }) end
                return { code = found.code, called = called("get").status, space = called("space").body }
            end
            job.progress({ text = found.text })
            repeat job.wait(0.05) until not db.get(job.input.uri)
            local ok, fault = pcall(db.query, { collection = "com.example.note", space = job.input.of })
            return { code = fault.code, is_member = atproto.spaces.is_member(job.input.of, caller_did) }
        end"#;
    server.bind_to("job.run:watch", watch).await;
}

async fn start(group: &Group, device: &Device, space: &str, auth: bool) -> String {
    let body =
        json!({ "uri": format!("{space}/{ALICE}/{NOTE}/a"), "of": space, "space": space, "auth": auth });
    let started =
        device.request(&group.world.server, Method::POST, &format!("/xrpc/{START}"), Some(&body)).await;
    assert_eq!(started.status, 200, "{}", started.text);
    format!("/admin/jobs/{}", started.body["id"].as_str().unwrap())
}

async fn a_job_sees_what_its_creator_may_read_then(world: World) {
    let group = Group::of(world).await;
    let pds = pds(&group.world, &[ALICE, BOB]).await;
    let stage = Stage::with(group).await;
    let Stage { group, space } = &stage;
    let server = &group.world.server;
    group.join(space, BOB, true, true).await;
    jobs(group).await;
    let scopes = format!("atproto space:{KIND}?authority=*&collection={NOTE}&action=read");
    let client = json!({ "name": "app", "client_id_url": "https://app.example/client.json",
        "client_uri": "https://app.example", "redirect_uris": [], "scopes": scopes });
    let bob = App::with(server, client).await.device(server, &pds, BOB, json!({ "scopes": scopes })).await;
    let ended = async |path: &str| {
        server
            .eventually("the job ends", async |server| {
                server.admin(Method::GET, path, None).await.body["status"] == "completed"
            })
            .await;
        server.admin(Method::GET, path, None).await.body["result"].clone()
    };

    // Nothing says with which scopes a job without `auth` was created.
    let path = start(group, &bob, space, false).await;
    assert_eq!(ended(&path).await, json!({ "code": "no-session", "called": 401, "space": "null" }));

    let path = start(group, &bob, space, true).await;
    server
        .eventually("the job reads", async |server| {
            server.admin(Method::GET, &path, None).await.body["progress"]["text"] == "a"
        })
        .await;
    let remove = json!({ "space": space, "did": BOB });
    assert_eq!(group.post(&group.alice, "simplespace.removeMember", remove).await.status, 200);
    assert_eq!(ended(&path).await, json!({ "code": "forbidden", "is_member": false }));
}

async fn an_event_has_no_caller(world: World) {
    let world = world.with_notes().await;
    let mut stage = Stage::of(world).await;
    let source = format!(
        r#"function handle()
            local ok, fault = pcall(db.get, "{0}/{ALICE}/{NOTE}/a")
            record.text = ok and "read" or fault.code
            record.member = atproto.spaces.is_member("{0}", "{ALICE}")
            return record
        end"#,
        stage.space
    );
    stage.group.world.server.bind_to(&format!("record.index:{NOTES}"), &source).await;
    let uri = stage.group.world.note(BOB, "x", json!({ "text": "x" })).await;
    let row = stage.value(&stage.group.alice, &format!("get&uri={uri}")).await;
    assert_eq!((&row["text"], &row["member"]), (&json!("forbidden"), &json!(false)));
}

async fn a_dry_run_sees_no_space(world: World) {
    let stage = Stage::of(world).await;
    let Stage { group, space } = &stage;
    let server = &group.world.server;
    for path in reads::paths(space) {
        let params: serde_json::Map<String, Value> = format!("what={path}")
            .split('&')
            .map(|pair| pair.split_once('=').unwrap())
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        let event = json!({ "type": "request", "params": params, "caller_did": ALICE });
        let body = json!({ "id": format!("xrpc.query:{READ}"), "event": event });
        let answer = server.admin(Method::POST, "/admin/scripts/dry-run", Some(&body)).await;
        let message = answer.body["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("can't be used in this dry run"), "{path}: {}", answer.text);
    }
    let event =
        json!({ "type": "request", "params": { "what": "space", "space": space }, "caller_did": ALICE });
    let body = json!({ "id": format!("xrpc.query:{READ}"), "event": event });
    let answer = server.admin(Method::POST, "/admin/scripts/dry-run", Some(&body)).await;
    assert_eq!(
        (&answer.body["ok"], &answer.body["result"]["body"]),
        (&json!(true), &Value::Null),
        "{}",
        answer.text
    );
}

async fn while_spaces_are_off_there_is_none(world: World) {
    let stage = Stage::of(world).await;
    let Stage { group, space } = &stage;
    let off = json!({ "value": "false" });
    let path = "/admin/settings/feature.spaces_enabled";
    assert_eq!(group.world.server.admin(Method::PUT, path, Some(&off)).await.status, 204);
    let members = [format!("list_members&of={space}"), format!("is_member&of={space}&did={ALICE}")];
    for path in reads::paths(space).iter().chain(&members) {
        for person in [Some(&group.alice), Some(&group.carol), None] {
            assert_eq!(error(&stage.read(person, path).await), (404, "FeatureDisabled"), "{path}");
        }
    }
    assert_eq!(stage.value(&group.alice, &format!("space&space={space}")).await, Value::Null);
}

async fn the_event_of_a_failure_has_nothing_for_a_space(world: World) {
    let stage = Stage::of(world).await;
    let Stage { group, space } = &stage;
    let server = &group.world.server;
    server.upload(procedure_lexicon(START), Some(NOTE)).await;
    server.bind_to(&format!("xrpc.procedure:{START}"), "function handle() error('no') end").await;
    for (input, is_private) in [
        (json!({ "space": space, "text": "secret" }), true),
        (json!({ "note": { "of": format!("{space}/{ALICE}/{NOTE}/a") }, "text": "secret" }), true),
        (json!({ "text": "secret", "spaces": ["main"] }), true),
        (json!({ "text": "secret" }), false),
    ] {
        let failed = group.call(Some(&group.alice), Method::POST, START, Some(input)).await;
        assert_eq!(failed.status, 500, "{}", failed.text);
        let path = "/admin/events?event_type=script.error&limit=1";
        let event = server.admin(Method::GET, path, None).await.text;
        assert_eq!((event.contains(START), event.contains("secret")), (true, !is_private), "{event}");
    }
}

async fn broken_addresses_are_errors_of_the_script(world: World) {
    let stage = Stage::of(world).await;
    let Stage { group, space } = &stage;
    let source = r#"
        function handle()
            local of, nul = params.of, params.of .. "\0"
            local codes = toarray({})
            local function try(f, ...)
                local ok, fault = pcall(f, ...)
                table.insert(codes, ok and "ok" or type(fault) == "table" and fault.code or tostring(fault))
            end
            for _, uri in ipairs({ of, nul, of .. "/x", of .. "/did:plc:a/com.example.note/a\0", of .. "/a/b/c/d", "at://x/space" }) do
                try(db.get, uri)
                try(Record.load, uri)
            end
            for _, bad in ipairs({ nul, of .. "/x", "", "space", string.rep("a", 10000), of:upper() }) do
                try(db.query, { collection = "com.example.note", space = bad })
                try(db.count, "com.example.note", nil, bad)
                try(atproto.spaces.query, { space_uri = bad })
                try(atproto.spaces.list_members, bad)
                try(atproto.spaces.is_member, bad, "did:plc:a")
            end
            for _, more in ipairs({ { did = "did:plc:a\0" }, { cursor = "\0" }, { cursor = "a/b" }, { collection = "a" }, { filter = {} },
                { sort = "text" }, { valid = true }, { limit = "x" }, { sortDirection = "up" } }) do
                more.collection, more.space = more.collection or "com.example.note", of
                try(db.query, more)
            end
            try(atproto.spaces.is_member, of, "did:plc:a\0")
            try(atproto.spaces.list_members, of, "did:plc:a\0")
            try(atproto.spaces.query, { space = of })
            try(atproto.spaces.query, {})
            try(db.search, { collection = "com.example.note", field = "text", query = "a", space = of })
            try(db.backlinks, { collection = "com.example.note", uri = of, space = of })
            return codes
        end"#;
    group.world.server.upload(query_lexicon("com.example.broken"), Some(NOTE)).await;
    group.world.server.bind("com.example.broken", source).await;
    let path = format!("com.example.broken?of={space}");
    let answer = group.call(Some(&group.alice), Method::GET, &path, None).await;
    let codes = answer.body.as_array().unwrap_or_else(|| panic!("{}", answer.text));
    assert_eq!(codes.len(), 12 + 30 + 9 + 6);
    assert!(codes.iter().all(|code| code == "bad-input"), "{}", answer.text);
}

async fn the_index_has_nothing_of_a_space(world: World) {
    let world = world.with_notes().await;
    let stage = Stage::of(world).await;
    let Stage { group, space } = &stage;
    let source = r#"
        function handle()
            local codes = toarray({})
            for _, name in ipairs({ "space_records", "spaces", "space_members", "space_ops" }) do
                local ok, fault = pcall(db.raw, "SELECT count(*) AS n FROM " .. name)
                table.insert(codes, ok or fault.code)
            end
            return {
                codes = codes, count = db.count("com.example.note"), rows = db.raw("SELECT count(*) AS n FROM records")[1].n,
                page = #db.query({ collection = "com.example.note" }).records,
                found = #db.search({ collection = "com.example.note", field = "text", query = "a" }).records,
                links = #db.backlinks({ collection = "com.example.note", uri = params.of }).records,
                called = xrpc.query("com.atproto.space.listRecords", { space = params.of }).status,
                nested = xrpc.query("com.example.read", { what = "count", of = params.of }).body,
            }
        end"#;
    group.world.server.upload(query_lexicon("com.example.index"), Some(NOTE)).await;
    group.world.server.bind("com.example.index", source).await;
    let path = format!("com.example.index?of={space}");
    let answer = group.call(Some(&group.alice), Method::GET, &path, None).await;
    let refused = json!(["forbidden", "forbidden", "forbidden", "forbidden"]);
    let expected = json!({ "codes": refused, "count": 0, "rows": 0, "page": 0, "found": 0, "links": 0,
        "called": 400, "nested": "1" });
    assert_eq!(answer.body, expected, "{}", answer.text);
}
