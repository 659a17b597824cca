//! Built-in procedures and scripts that write with a client's sessions.

mod scripted;

use belvedere_protocol::crypto::Algorithm;
use http::Method;
use serde_json::{Value, json};

use super::device::{App, Device, pds};
use crate::fixtures::{ALICE, BOB, LIST, NOTES, World};
use crate::support::instance::{Answer, keyed_lexicon, procedure_lexicon, query_lexicon};

const PUT: &str = "com.example.putNote";

async fn upload(world: &World, nsid: &str, action: &str) {
    let body = json!({ "lexicon_json": procedure_lexicon(nsid), "target_collection": NOTES, "action": action,
        "backfill": false });
    let answer = world.server.admin(Method::POST, "/admin/lexicons", Some(&body)).await;
    assert!(answer.status.is_success(), "{}", answer.text);
}

async fn call(world: &World, device: &Device, nsid: &str, body: Value) -> Answer {
    device.request(&world.server, Method::POST, &format!("/xrpc/{nsid}"), Some(&body)).await
}

crate::in_both_worlds!(
    written_records_can_be_read_at_once,
    invalid_writes_are_refused_before_anything_is_sent,
    an_invalid_record_is_refused_with_its_path_with_a_script_or_without,
    records_with_an_nsid_as_key_are_created_with_rkey,
    integers_are_indexed_as_the_repo_has_them,
    a_blob_is_uploaded_unless_it_is_too_large,
    a_profile_is_the_callers_own
);

async fn written_records_can_be_read_at_once(world: World) {
    let world = world.with_notes().await;
    upload(&world, PUT, "upsert").await;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(&world.server, "one").await;
    let device = app.device(&world.server, &pds, ALICE, json!({})).await;
    let scopes = "atproto repo:com.example.note";
    let may_delete = App::with(
        &world.server,
        json!({ "name": "two", "client_id_url": "https://two.example/client.json",
            "client_uri": "https://two.example", "redirect_uris": [], "scopes": scopes }),
    )
    .await;
    let may_delete = may_delete.device(&world.server, &pds, ALICE, json!({ "scopes": scopes })).await;
    let created = call(&world, &device, PUT, json!({ "text": "hello", "shouldPublish": true })).await;
    assert_eq!(
        (created.status.as_u16(), &created.body["validationStatus"]),
        (200, &json!("unknown")),
        "{}",
        created.text
    );
    let uri = created.body["uri"].as_str().unwrap();
    let read = world.server.xrpc(&format!("{LIST}?uri={uri}")).await;
    assert_eq!(read.body["record"], json!({ "$type": NOTES, "text": "hello", "uri": uri }));
    let sent: Value =
        serde_json::from_slice(&pds.requests("/xrpc/com.atproto.repo.createRecord")[0].body).unwrap();
    assert_eq!(
        sent,
        json!({ "repo": ALICE, "collection": NOTES, "record": { "$type": NOTES, "text": "hello" } })
    );
    let put = call(&world, &device, PUT, json!({ "uri": uri, "text": "changed" })).await;
    assert_eq!((put.status.as_u16(), &put.body["uri"]), (200, &json!(uri)));
    assert_eq!(world.server.xrpc(&format!("{LIST}?uri={uri}")).await.body["record"]["text"], "changed");

    upload(&world, "com.example.removeNote", "delete").await;
    let beyond = call(&world, &device, "com.example.removeNote", json!({ "uri": uri })).await;
    assert_eq!((beyond.status.as_u16(), beyond.error()), (403, "ScopeMissingError"), "{}", beyond.text);
    assert_eq!(call(&world, &may_delete, "com.example.removeNote", json!({ "uri": uri })).await.status, 200);
    assert_eq!(world.server.xrpc(&format!("{LIST}?uri={uri}")).await.status, 404);
}

async fn invalid_writes_are_refused_before_anything_is_sent(world: World) {
    let world = world.with_notes().await;
    for (nsid, action) in [
        (PUT, "upsert"),
        ("com.example.create", "create"),
        ("com.example.update", "update"),
        ("com.example.remove", "delete"),
    ] {
        upload(&world, nsid, action).await;
    }
    world.server.upload(procedure_lexicon("com.example.nothing"), None).await;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(&world.server, "one").await;
    let device = app.device(&world.server, &pds, ALICE, json!({})).await;
    let own = format!("at://{ALICE}/{NOTES}/k");
    for (nsid, body, status, error) in [
        (PUT, json!([]), 400, "invalid request body"),
        (PUT, json!({ "text": 7 }), 400, "InvalidRequest"),
        (PUT, json!({ "text": "a", "n": 0.5 }), 400, "InvalidRequest"),
        (PUT, json!({ "$type": "com.example.other" }), 400, "$type must be"),
        (PUT, json!({ "uri": 7 }), 400, "uri must be an AT URI"),
        (PUT, json!({ "uri": "at://x" }), 400, "uri: "),
        (
            PUT,
            json!({ "uri": format!("at://did:plc:abc/space/a.b.c/main/{ALICE}/{NOTES}/k") }),
            400,
            "uri: not the AT URI of a record (at://<did>/<collection>/<rkey>): it is an address in a space",
        ),
        (PUT, json!({ "uri": format!("at://{BOB}/{NOTES}/k") }), 403, "uri names a record of another repo"),
        (
            PUT,
            json!({ "uri": format!("at://{ALICE}/com.example.other/k") }),
            400,
            "uri names a record that is not of",
        ),
        ("com.example.create", json!({ "uri": own }), 400, "this procedure creates records"),
        ("com.example.update", json!({ "text": "a" }), 400, "this procedure updates records"),
        ("com.example.remove", json!({}), 400, "this procedure deletes records"),
        ("com.example.nothing", json!({}), 400, "the procedure has neither a script"),
    ] {
        let answer = call(&world, &device, nsid, body.clone()).await;
        assert_eq!(answer.status, status, "{nsid} {body} {}", answer.text);
        assert!(answer.error().starts_with(error), "{nsid} {body} {}", answer.text);
    }
    assert!(pds.requests("/xrpc/com.atproto.repo").is_empty());
    // A refusal by the PDS is returned unchanged, and nothing is indexed.
    pds.respond_with(
        "/xrpc/com.atproto.repo.createRecord",
        418,
        json!({ "error": "Teapot", "message": "no" }),
    );
    let refused = call(&world, &device, PUT, json!({ "text": "a" })).await;
    assert_eq!(
        (refused.status.as_u16(), &refused.body),
        (418, &json!({ "error": "Teapot", "message": "no" }))
    );
    assert_eq!(world.server.records().await, 0);
}

async fn an_invalid_record_is_refused_with_its_path_with_a_script_or_without(world: World) {
    let world = world.with_notes().await;
    let (server, scripted) = (&world.server, "com.example.scriptedNote");
    server.upload(keyed_lexicon("com.example.post", "tid"), None).await;
    for (nsid, collection) in [(PUT, NOTES), (scripted, NOTES), ("com.example.putPost", "com.example.post")] {
        server.upload(procedure_lexicon(nsid), Some(collection)).await;
    }
    server
        .bind_to(
            &format!("xrpc.procedure:{scripted}"),
            "function handle() return Record(collection, input, { open = true }):save() end",
        )
        .await;
    let pds = pds(&world, &[ALICE]).await;
    let device = App::confidential(server, "one").await.device(server, &pds, ALICE, json!({})).await;
    for (body, reason) in [
        (json!({ "text": 7 }), "record.text"),
        (json!({ "text": 0.5 }), "record.text"),
        (json!({ "text": "a", "n": 0.5 }), "a number is not a 64-bit integer"),
    ] {
        let built_in = call(&world, &device, PUT, body.clone()).await;
        let message = built_in.body["message"].as_str().unwrap_or_default();
        assert_eq!(
            (built_in.status.as_u16(), built_in.error()),
            (400, "InvalidRequest"),
            "{body} {}",
            built_in.text
        );
        assert!(message.starts_with("invalid record: ") && message.contains(reason), "{message}");
        let answer = call(&world, &device, scripted, body).await;
        assert_eq!((answer.status, &answer.body), (built_in.status, &built_in.body));
    }
    // A record of the network with a key that the lexicon forbids can't be written again.
    let wrong = call(
        &world,
        &device,
        "com.example.putPost",
        json!({ "uri": format!("at://{ALICE}/com.example.post/self") }),
    )
    .await;
    assert!(wrong.status == 400 && wrong.text.contains("is not a TID"), "{}", wrong.text);
    assert!(pds.requests("/xrpc/com.atproto.repo").is_empty());
    let events = server.admin(Method::GET, "/admin/events?event_type=script.error", None).await;
    assert_eq!(events.body["events"], json!([]), "{}", events.text);
}

async fn records_with_an_nsid_as_key_are_created_with_rkey(world: World) {
    let server = &world.server;
    let feature = "com.example.feature";
    server.upload(keyed_lexicon(feature, "nsid"), None).await;
    server.upload(query_lexicon(LIST), Some(feature)).await;
    for (nsid, action) in [("com.example.create", "create"), (PUT, "upsert")] {
        let body = json!({ "lexicon_json": procedure_lexicon(nsid), "target_collection": feature, "action": action,
            "backfill": false });
        assert!(server.admin(Method::POST, "/admin/lexicons", Some(&body)).await.status.is_success());
    }
    let pds = pds(&world, &[ALICE]).await;
    let scopes = format!("atproto repo:{feature}");
    let app = App::with(
        server,
        json!({ "name": "app", "client_id_url": "https://app.example/client.json",
            "client_uri": "https://app.example", "redirect_uris": [], "scopes": scopes }),
    )
    .await;
    let device = app.device(server, &pds, ALICE, json!({ "scopes": scopes })).await;
    let uri = |key: &str| format!("at://{ALICE}/{feature}/{key}");
    for (nsid, body, reason) in [
        ("com.example.create", json!({ "text": "a" }), "the record key (rkey) is missing"),
        ("com.example.create", json!({ "text": "a", "rkey": "feature" }), "is not an NSID"),
        ("com.example.create", json!({ "text": "a", "rkey": "a/b" }), "rkey is not a record key"),
        ("com.example.create", json!({ "text": "a", "rkey": 7 }), "rkey must be a string"),
        (PUT, json!({ "rkey": "com.example.a", "uri": uri("com.example.b") }), "rkey is not the key in uri"),
    ] {
        let refused = call(&world, &device, nsid, body).await;
        assert!(refused.status == 400 && refused.text.contains(reason), "{reason}: {}", refused.text);
    }
    assert!(pds.requests("/xrpc/com.atproto.repo").is_empty());
    for (nsid, key) in [("com.example.create", "com.example.a"), (PUT, "com.example.b")] {
        let created = call(&world, &device, nsid, json!({ "text": "a", "rkey": key })).await;
        assert_eq!(
            (created.status.as_u16(), &created.body["uri"]),
            (200, &json!(uri(key))),
            "{}",
            created.text
        );
        let read = server.xrpc(&format!("{LIST}?uri={}", uri(key))).await;
        assert_eq!(read.body["record"], json!({ "$type": feature, "text": "a", "uri": uri(key) }));
    }
    let put = call(
        &world,
        &device,
        PUT,
        json!({ "text": "b", "rkey": "com.example.b", "uri": uri("com.example.b") }),
    )
    .await;
    assert_eq!(put.status, 200, "{}", put.text);
}

async fn integers_are_indexed_as_the_repo_has_them(world: World) {
    let world = world.with_notes().await;
    upload(&world, PUT, "upsert").await;
    let pds = pds(&world, &[ALICE]).await;
    let device =
        App::confidential(&world.server, "one").await.device(&world.server, &pds, ALICE, json!({})).await;
    let (integers, stored) = (json!([1.0, 1e3, -0.0, -2.0]), "[1,1000,0,-2]");
    let standard = json!({ "repo": ALICE, "collection": NOTES, "record": { "$type": NOTES, "n": integers } });
    for (nsid, body) in [(PUT, json!({ "n": integers })), ("com.atproto.repo.createRecord", standard)] {
        let created = call(&world, &device, nsid, body).await;
        assert_eq!(created.status, 200, "{}", created.text);
        let read = world.server.xrpc(&format!("{LIST}?uri={}", created.body["uri"].as_str().unwrap())).await;
        assert!(read.text.contains(stored), "{nsid}: {}", read.text);
    }
}

async fn a_blob_is_uploaded_unless_it_is_too_large(world: World) {
    let server = &world.server;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(server, "one").await;
    let device = app.device(server, &pds, ALICE, json!({})).await;
    let path = "/xrpc/com.atproto.repo.uploadBlob";
    pds.demand_nonce("one");
    let send = async |more: &[(&str, &str)], body: String| {
        let (token, proof) = (format!("DPoP {}", device.token), device.proof(server, &Method::POST, path));
        let mut headers =
            vec![("x-client-key", &*device.client_key), ("authorization", &*token), ("dpop", &*proof)];
        headers.extend(more);
        server.request(Method::POST, path, &headers, Some(body)).await
    };
    let answer = send(&[("content-type", "image/png")], "x".repeat(1 << 20)).await;
    assert_eq!(
        answer.body["blob"],
        json!({ "$type": "blob", "size": 1 << 20, "mimeType": "image/png" }),
        "{}",
        answer.text
    );
    let answer = send(&[("content-type", "a/b; c=d")], "y".to_owned()).await;
    assert_eq!(answer.body["blob"]["mimeType"], "a/b; c=d");
    // Each time the blob was sent once, although the PDS first required a nonce or new tokens.
    assert_eq!(pds.requests(path).len(), 2);
    let large = (50 << 20) + 1;
    let answer = send(&[("content-length", &large.to_string())], String::new()).await;
    assert_eq!(answer.status, 413, "{}", answer.text);
    let answer = send(&[("content-encoding", "gzip")], "x".to_owned()).await;
    assert_eq!(answer.status, 400);
    let anonymous = server.request(Method::POST, path, &[("x-client-key", &device.client_key)], None).await;
    assert_eq!((anonymous.status.as_u16(), anonymous.error()), (401, "authentication required"));
    assert_eq!(pds.requests(path).len(), 2);
}

async fn a_profile_is_the_callers_own(world: World) {
    let server = &world.server;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(server, "one").await;
    let device = app.device(server, &pds, ALICE, json!({})).await;
    let path = "/xrpc/app.bsky.actor.getProfile";
    let get = async || device.request(server, Method::GET, path, None).await;
    assert_eq!(get().await.body, json!({ "did": ALICE, "handle": ALICE }));
    pds.respond_with(
        "/xrpc/com.atproto.repo.getRecord",
        200,
        json!({ "value": { "displayName": "Alice",
            "description": "me", "avatar": { "$type": "blob", "ref": { "$link": "bafycid" } } } }),
    );
    let avatar = format!("{}/xrpc/com.atproto.sync.getBlob?did={ALICE}&cid=bafycid", pds.url());
    assert_eq!(
        get().await.body,
        json!({ "did": ALICE, "handle": ALICE, "displayName": "Alice",
            "description": "me", "avatarURL": avatar })
    );
    let anonymous = server.request(Method::GET, path, &[("x-client-key", &device.client_key)], None).await;
    assert_eq!(anonymous.status, 401);
}
