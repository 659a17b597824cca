//! Methods without a lexicon that go to the caller's own PDS: `com.atproto.*`, and others with `routing`.

mod routing;

use belvedere_protocol::crypto::Algorithm;
use belvedere_standins::jetstream::{Frame, Place};
use belvedere_standins::upstream::respond;
use http::Method;
use serde_json::{Value, json};

use super::forward::authority;
use crate::fixtures::{ALICE, BOB, LIST, NOTES, World};
use crate::oauth::device::{App, Device, pds};
use crate::support::instance::{Answer, keyed_lexicon, procedure_lexicon, query_lexicon};

async fn post(world: &World, device: &Device, method: &str, body: Value) -> Answer {
    device.request(&world.server, Method::POST, &format!("/xrpc/com.atproto.{method}"), Some(&body)).await
}

fn note(text: &str) -> Value {
    json!({ "$type": NOTES, "text": text })
}

crate::in_both_worlds!(
    writes_go_to_the_callers_pds_and_can_be_read_at_once,
    a_batch_is_one_commit_of_several_records,
    invalid_records_are_not_sent_unless_the_call_opts_out,
    the_email_address_needs_a_scope_even_if_the_pds_gives_it,
    a_put_waits_for_the_stream_where_creates_and_updates_differ,
    what_a_session_does_not_allow_is_not_sent,
    a_record_script_decides_on_a_write_at_once_and_once
);

async fn writes_go_to_the_callers_pds_and_can_be_read_at_once(world: World) {
    let world = world.with_notes().await;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(&world.server, "one").await;
    let device = app.device(&world.server, &pds, ALICE, json!({})).await;
    let body = json!({ "repo": ALICE, "collection": NOTES, "record": note("hello"), "validate": false });
    let created = post(&world, &device, "repo.createRecord", body.clone()).await;
    assert_eq!(
        (created.status.as_u16(), &created.body["validationStatus"]),
        (200, &json!("unknown")),
        "{}",
        created.text
    );
    let uri = created.body["uri"].as_str().unwrap();
    let sent = &pds.requests("/xrpc/com.atproto.repo.createRecord")[0];
    assert_eq!(serde_json::from_slice::<Value>(&sent.body).unwrap(), body);
    assert_eq!(sent.headers["authorization"], format!("DPoP {}", device.token));
    assert_eq!(world.server.xrpc(&format!("{LIST}?uri={uri}")).await.body["record"]["text"], "hello");

    let rkey = uri.rsplit('/').next().unwrap();
    let put = json!({ "repo": ALICE, "collection": NOTES, "rkey": rkey, "record": note("changed") });
    assert_eq!(post(&world, &device, "repo.putRecord", put).await.status, 200);
    assert_eq!(world.server.xrpc(&format!("{LIST}?uri={uri}")).await.body["record"]["text"], "changed");

    // Deleting is beyond the scopes of this session; that of another application may.
    let delete = json!({ "repo": ALICE, "collection": NOTES, "rkey": rkey });
    let beyond = post(&world, &device, "repo.deleteRecord", delete.clone()).await;
    assert_eq!((beyond.status.as_u16(), beyond.error()), (403, "ScopeMissingError"), "{}", beyond.text);
    assert!(pds.requests("/xrpc/com.atproto.repo.deleteRecord").is_empty());
    let scopes = "atproto repo:com.example.note";
    let other = App::with(
        &world.server,
        json!({ "name": "two", "client_id_url": "https://two.example/client.json",
            "client_uri": "https://two.example", "redirect_uris": [], "scopes": scopes }),
    )
    .await;
    let other = other.device(&world.server, &pds, ALICE, json!({ "scopes": scopes })).await;
    assert_eq!(post(&world, &other, "repo.deleteRecord", delete).await.status, 200);
    assert_eq!(world.server.xrpc(&format!("{LIST}?uri={uri}")).await.status, 404);
}

async fn a_batch_is_one_commit_of_several_records(world: World) {
    let world = world.with_notes().await;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(&world.server, "one").await;
    let device = app.device(&world.server, &pds, ALICE, json!({})).await;
    let write = |kind: &str, rkey: &str, more: Value| {
        let mut write = json!({ "$type": format!("com.atproto.repo.applyWrites#{kind}"), "collection": NOTES, "rkey": rkey });
        write.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        write
    };
    let result = |rkey: &str, cid: &str| json!({ "uri": format!("at://{ALICE}/{NOTES}/{rkey}"), "cid": cid });
    let cid = |text: &str| {
        let record = note(text).to_string();
        belvedere_protocol::atproto::record::inspect(record.as_bytes()).unwrap().cid.unwrap().to_string()
    };
    pds.respond_with("/xrpc/com.atproto.repo.applyWrites", 200, json!({
        "commit": { "cid": "bafyreic", "rev": "3kfnnoqqagc2a" }, "results": [result("a", &cid("a")), result("b", &cid("b"))] }));
    let writes = json!([
        write("create", "a", json!({ "value": note("a") })),
        write("create", "b", json!({ "value": note("b") }))
    ]);
    let done = post(&world, &device, "repo.applyWrites", json!({ "repo": ALICE, "writes": writes })).await;
    assert_eq!(done.status, 200, "{}", done.text);
    for rkey in ["a", "b"] {
        let read = world.server.xrpc(&format!("{LIST}?uri=at://{ALICE}/{NOTES}/{rkey}")).await;
        assert_eq!(read.body["record"]["text"], rkey, "{}", read.text);
    }
    // An update needs the permission to update, and none to create.
    let scopes = "atproto repo:com.example.note?action=update";
    let editor = App::with(
        &world.server,
        json!({ "name": "two", "client_id_url": "https://two.example/client.json",
            "client_uri": "https://two.example", "redirect_uris": [], "scopes": scopes }),
    )
    .await;
    let editor = editor.device(&world.server, &pds, ALICE, json!({ "scopes": scopes })).await;
    pds.respond_with(
        "/xrpc/com.atproto.repo.applyWrites",
        200,
        json!({
            "commit": { "cid": "bafyreic", "rev": "3kfnnoqqagd2a" }, "results": [result("a", &cid("changed"))] }),
    );
    let update = json!([write("update", "a", json!({ "value": note("changed") }))]);
    let done = post(&world, &editor, "repo.applyWrites", json!({ "repo": ALICE, "writes": update })).await;
    assert_eq!(done.status, 200, "{}", done.text);
    let read = world.server.xrpc(&format!("{LIST}?uri=at://{ALICE}/{NOTES}/a")).await;
    assert_eq!(read.body["record"]["text"], "changed", "{}", read.text);
    let create = json!([write("create", "c", json!({ "value": note("c") }))]);
    let refused = post(&world, &editor, "repo.applyWrites", json!({ "repo": ALICE, "writes": create })).await;
    assert_eq!((refused.status.as_u16(), refused.error()), (403, "ScopeMissingError"), "{}", refused.text);

    // One write beyond the scopes refuses the whole commit.
    let writes =
        json!([write("create", "c", json!({ "value": note("c") })), write("delete", "a", json!({}))]);
    let refused = post(&world, &device, "repo.applyWrites", json!({ "repo": ALICE, "writes": writes })).await;
    assert_eq!((refused.status.as_u16(), refused.error()), (403, "ScopeMissingError"), "{}", refused.text);
    assert_eq!(pds.requests("/xrpc/com.atproto.repo.applyWrites").len(), 2);
}

async fn invalid_records_are_not_sent_unless_the_call_opts_out(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    server.upload(keyed_lexicon("com.example.post", "tid"), None).await;
    server.upload(keyed_lexicon("com.example.profile", "literal:self"), None).await;
    let scopes = "atproto repo:*";
    let pds = pds(&world, &[ALICE]).await;
    let app = App::with(
        server,
        json!({ "name": "two", "client_id_url": "https://two.example/client.json",
            "client_uri": "https://two.example", "redirect_uris": [], "scopes": scopes }),
    )
    .await;
    let device = app.device(server, &pds, ALICE, json!({ "scopes": scopes })).await;
    let single = |collection: &str, rkey: Value, record: Value| json!({ "repo": ALICE, "collection": collection, "rkey": rkey, "record": record });
    let create = "com.atproto.repo.applyWrites#create";
    let batch = json!({ "repo": ALICE, "writes": [
        { "$type": create, "collection": NOTES, "value": { "text": "a" } },
        { "$type": create, "collection": NOTES, "value": { "text": 7 } } ] });
    for (method, body, reason) in [
        (
            "repo.createRecord",
            single(NOTES, Value::Null, json!({ "text": 7 })),
            "invalid record: at record.text",
        ),
        (
            "repo.putRecord",
            single(NOTES, json!("k"), json!({ "$type": NOTES, "text": 7 })),
            "invalid record: at record.text",
        ),
        ("repo.putRecord", single(NOTES, json!("k"), json!({ "$type": "com.example.post" })), "$type"),
        (
            "repo.createRecord",
            single("com.example.unknown", Value::Null, json!({ "$type": NOTES })),
            "$type must be com.example.unknown",
        ),
        ("repo.createRecord", single("com.example.post", json!("self"), json!({})), "is not a TID"),
        ("repo.createRecord", single("com.example.profile", Value::Null, json!({})), "have the key \"self\""),
        ("repo.applyWrites", batch.clone(), "invalid record (2 of 2): at record.text"),
    ] {
        let refused = post(&world, &device, method, body).await;
        assert_eq!(
            (refused.status.as_u16(), refused.error()),
            (400, "InvalidRequest"),
            "{method} {}",
            refused.text
        );
        assert!(refused.body["message"].as_str().unwrap().contains(reason), "{method} {}", refused.text);
    }
    assert!(pds.requests("/xrpc/com.atproto.repo").is_empty());
    let mut opted_out = single(NOTES, json!("k"), json!({ "text": 7 }));
    opted_out["validate"] = false.into();
    let mut other_type = opted_out.clone();
    other_type["record"]["$type"] = "com.example.post".into();
    let refused = post(&world, &device, "repo.putRecord", other_type).await;
    assert_eq!((refused.status.as_u16(), refused.error()), (400, "InvalidRequest"), "{}", refused.text);
    let put = post(&world, &device, "repo.putRecord", opted_out).await;
    assert_eq!(put.status, 200, "{}", put.text);
    let found =
        server.admin(Method::GET, &format!("/admin/records?collection={NOTES}&valid=false"), None).await;
    assert!(
        found.body["records"][0]["invalid_reason"].as_str().unwrap().contains("record.text"),
        "{}",
        found.text
    );
    let mut batch = batch;
    batch["validate"] = false.into();
    pds.respond_with("/xrpc/com.atproto.repo.applyWrites", 418, json!({ "error": "Teapot" }));
    assert_eq!(post(&world, &device, "repo.applyWrites", batch).await.status, 418, "the PDS decides");
    // A collection without a lexicon here, and a record without $type, which the PDS adds.
    let other = single("com.example.unknown", Value::Null, json!({ "text": 7 }));
    assert_eq!(post(&world, &device, "repo.createRecord", other).await.status, 200);
    let untyped =
        post(&world, &device, "repo.createRecord", single(NOTES, Value::Null, json!({ "text": "hi" }))).await;
    let read = server.xrpc(&format!("{LIST}?uri={}", untyped.body["uri"].as_str().unwrap())).await;
    assert_eq!(
        (&read.body["record"]["$type"], &read.body["record"]["text"]),
        (&json!(NOTES), &json!("hi")),
        "{}",
        read.text
    );
}

async fn the_email_address_needs_a_scope_even_if_the_pds_gives_it(world: World) {
    let pds = pds(&world, &[ALICE]).await;
    let account =
        json!({ "did": ALICE, "handle": "alice.example", "email": "a@example.org", "emailConfirmed": true });
    for (name, scopes, shown) in [
        ("one", "atproto repo:com.example.note", json!({ "did": ALICE, "handle": "alice.example" })),
        ("two", "atproto account:email", account.clone()),
    ] {
        let app = App::with(
            &world.server,
            json!({ "name": name, "client_id_url": format!("https://{name}.example/client.json"),
                "client_uri": format!("https://{name}.example"), "redirect_uris": [], "scopes": scopes }),
        )
        .await;
        pds.respond_normally("/xrpc/com.atproto.server.getSession");
        let device = app.device(&world.server, &pds, ALICE, json!({ "scopes": scopes })).await;
        pds.respond_with("/xrpc/com.atproto.server.getSession", 200, account.clone());
        let path = "/xrpc/com.atproto.server.getSession";
        let answer = device.request(&world.server, Method::GET, path, None).await;
        assert_eq!((answer.status.as_u16(), &answer.body), (200, &shown), "{scopes}: {}", answer.text);
    }
}

async fn a_put_waits_for_the_stream_where_creates_and_updates_differ(mut world: World) {
    world = world.with_notes().await;
    let source = "function handle() record.by = 'update' return record end";
    world.server.bind_to(&format!("record.update:{NOTES}"), source).await;
    let pds = pds(&world, &[ALICE]).await;
    let device =
        App::confidential(&world.server, "one").await.device(&world.server, &pds, ALICE, json!({})).await;
    let put = json!({ "repo": ALICE, "collection": NOTES, "rkey": "self", "record": note("put") });
    let done = post(&world, &device, "repo.putRecord", put).await;
    assert_eq!(done.status, 200, "{}", done.text);
    let path = format!("{LIST}?uri=at://{ALICE}/{NOTES}/self");
    assert_eq!(world.server.xrpc(&path).await.status, 404, "whether the put created the record is not known");
    let rev = done.body["commit"]["rev"].as_str().unwrap().to_owned();
    world.push(|at, _| {
        Frame::update(at, Place { did: ALICE, collection: NOTES, rkey: "self", rev: &rev }, &note("put"))
    });
    world.note(ALICE, "later", json!({ "text": "later" })).await;
    assert_eq!(world.server.xrpc(&path).await.body["record"]["by"], "update");
    // A created record is a create.
    let body = json!({ "repo": ALICE, "collection": NOTES, "record": note("created") });
    let created = post(&world, &device, "repo.createRecord", body).await;
    let uri = created.body["uri"].as_str().unwrap();
    let read = world.server.xrpc(&format!("{LIST}?uri={uri}")).await;
    assert_eq!((&read.body["record"]["text"], &read.body["record"]["by"]), (&json!("created"), &Value::Null));
}

async fn what_a_session_does_not_allow_is_not_sent(world: World) {
    let world = world.with_notes().await;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(&world.server, "one").await;
    let device = app.device(&world.server, &pds, ALICE, json!({})).await;
    let create =
        |repo: &str, collection: &str| json!({ "repo": repo, "collection": collection, "record": {} });
    for (method, body, status, error) in [
        ("repo.createRecord", create(BOB, NOTES), 400, "repo must be the authenticated user"),
        ("repo.createRecord", create(ALICE, "com.example.other"), 403, "ScopeMissingError"),
        (
            "repo.createRecord",
            json!({ "repo": ALICE }),
            400,
            "invalid request body: missing field `collection`",
        ),
        (
            "repo.createRecord",
            json!({ "repo": ALICE, "collection": NOTES }),
            400,
            "invalid request body: record is missing",
        ),
        ("identity.updateHandle", json!({ "handle": "new.example" }), 403, "ScopeMissingError"),
        ("server.deleteAccount", json!({}), 403, "ScopeMissingError"),
    ] {
        let answer = post(&world, &device, method, body).await;
        assert_eq!(answer.status, status, "{method} {}", answer.text);
        assert!(answer.error().starts_with(error), "{method} {}", answer.text);
    }
    let path =
        "/xrpc/com.atproto.server.getServiceAuth?aud=did:web:other.example%23service&lxm=com.example.get";
    let token = device.request(&world.server, Method::GET, path, None).await;
    assert_eq!((token.status.as_u16(), token.error()), (403, "ScopeMissingError"), "{}", token.text);
    assert!(
        pds.requests("/xrpc/com.atproto.server.").iter().all(|r| r.path_and_query.ends_with("getSession"))
    );
    assert!(pds.requests("/xrpc/com.atproto.repo.").is_empty());
    // A refusal by the PDS is returned unchanged, and nothing is indexed.
    pds.respond_with(
        "/xrpc/com.atproto.repo.createRecord",
        418,
        json!({ "error": "Teapot", "message": "no" }),
    );
    let refused = post(&world, &device, "repo.createRecord", create(ALICE, NOTES)).await;
    assert_eq!(
        (refused.status.as_u16(), &refused.body),
        (418, &json!({ "error": "Teapot", "message": "no" }))
    );
    assert_eq!(world.server.records().await, 0);
}

async fn a_record_script_decides_on_a_write_at_once_and_once(mut world: World) {
    world = world.with_notes().await;
    let source = "function handle()
            log('decides on ' .. action .. ' ' .. tostring(record and record.text))
            if record and record.text == 'spam' then return nil end
            if record then record.by = 'script' return record end
            return true end";
    world.server.bind_to(&format!("record.index:{NOTES}"), source).await;
    world.server.upload(procedure_lexicon("com.example.putNote"), Some(NOTES)).await;
    let pds = pds(&world, &[ALICE]).await;
    let device =
        App::confidential(&world.server, "one").await.device(&world.server, &pds, ALICE, json!({})).await;
    let put = async |text: &str| {
        let body = json!({ "text": text });
        device.request(&world.server, Method::POST, "/xrpc/com.example.putNote", Some(&body)).await.body
    };
    let kept = put("hello").await;
    let uri = kept["uri"].as_str().unwrap().to_owned();
    let read = world.server.xrpc(&format!("{LIST}?uri={uri}")).await;
    assert_eq!(read.body["record"]["by"], "script", "{}", read.text);
    let spam = put("spam").await;
    let spam_uri = spam["uri"].as_str().unwrap().to_owned();
    assert_eq!(world.server.xrpc(&format!("{LIST}?uri={spam_uri}")).await.status, 404);

    // The stream delivers the same commits: the script does not run again.
    for (written, text) in [(&kept, "hello"), (&spam, "spam")] {
        let rkey = written["uri"].as_str().unwrap().rsplit('/').next().unwrap();
        let rev = written["commit"]["rev"].as_str().unwrap();
        world
            .push(|at, _| Frame::create(at, Place { did: ALICE, collection: NOTES, rkey, rev }, &note(text)));
    }
    let later = world.note(ALICE, "later", json!({ "text": "later" })).await;
    assert_eq!(world.server.xrpc(&format!("{LIST}?uri={later}")).await.body["record"]["by"], "script");
    assert_eq!(world.server.xrpc(&format!("{LIST}?uri={spam_uri}")).await.status, 404);
    let log = world.server.admin(Method::GET, "/admin/events?event_type=script.log&limit=100", None).await;
    let count = |text: &str| log.text.matches(&format!("decides on create {text}")).count();
    assert_eq!((count("hello"), count("spam"), count("later")), (1, 1, 1), "{}", log.text);
}
