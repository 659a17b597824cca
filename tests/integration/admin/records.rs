//! `/admin/records` and `/admin/stats`

use crate::fixtures::World;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, NOTES};

fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

crate::in_both_worlds!(
    records_are_listed_newest_first_with_their_metadata,
    a_record_and_a_collection_are_deleted,
    records_are_found_by_conditions,
    bad_parameters_are_400
);

async fn records_are_listed_newest_first_with_their_metadata(mut world: World) {
    world = world.with_notes().await;
    for n in 0..5 {
        world.note(ALICE, &format!("n{n}"), json!({ "text": format!("note {n}") })).await;
    }
    let server = &world.server;
    let page = server.admin(Method::GET, &format!("/admin/records?collection={NOTES}&limit=3"), None).await;
    assert_eq!(page.status, 200);
    let keys: Vec<&str> =
        page.body["records"].as_array().unwrap().iter().map(|r| r["rkey"].as_str().unwrap()).collect();
    assert_eq!(keys, ["n4", "n3", "n2"]);
    let first = &page.body["records"][0];
    assert_eq!(first["uri"], format!("at://{ALICE}/{NOTES}/n4"));
    assert_eq!(first["did"], ALICE);
    assert_eq!(first["collection"], NOTES);
    assert_eq!(first["record"]["text"], "note 4");
    assert_eq!(first["labels"], json!([]));
    assert!(first["cid"].as_str().unwrap().starts_with("bafyrei"));
    assert!(first["indexed_at"].as_str().unwrap().ends_with('Z'));

    let cursor = page.body["cursor"].as_str().unwrap();
    let path = format!("/admin/records?collection={NOTES}&limit=3&cursor={cursor}");
    let rest = server.admin(Method::GET, &path, None).await;
    assert_eq!(rest.body["records"].as_array().unwrap().len(), 2);
    assert!(rest.body.get("cursor").is_none(), "no more rows, no cursor");

    let collections = server.admin(Method::GET, "/admin/records/collections", None).await;
    assert_eq!(collections.body, json!({ "collections": [NOTES] }));
    let stats = server.admin(Method::GET, "/admin/stats", None).await;
    assert_eq!(
        stats.body,
        json!({ "total_records": 5, "collections": [{ "collection": NOTES, "count": 5, "invalid": 0 }] })
    );
}

async fn a_record_and_a_collection_are_deleted(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({ "text": "a" })).await;
    world.note(ALICE, "b", json!({ "text": "b" })).await;
    world.note(BOB, "c", json!({ "text": "c" })).await;
    let server = &world.server;
    let path = format!("/admin/records?uri={uri}");
    assert_eq!(server.admin(Method::DELETE, &path, None).await.status, 204);
    assert_eq!(server.admin(Method::DELETE, &path, None).await.status, 404);
    let path = format!("/admin/records/collection?collection={NOTES}");
    assert_eq!(server.admin(Method::DELETE, &path, None).await.body, json!({ "deleted": 2 }));
    assert_eq!(server.records().await, 0);

    let events = server.admin(Method::GET, "/admin/events?category=record", None).await;
    let types: Vec<&str> =
        events.body["events"].as_array().unwrap().iter().map(|e| e["event_type"].as_str().unwrap()).collect();
    assert_eq!(types, ["record.collection_deleted", "record.deleted"]);
}

async fn records_are_found_by_conditions(mut world: World) {
    world = world.with_notes().await;
    world.note(ALICE, "a", json!({ "text": "Apples", "n": 1 })).await;
    world.note(ALICE, "b", json!({ "text": "Pears", "n": 2 })).await;
    world.note(BOB, "a", json!({ "text": "100% apples", "n": 3 })).await;
    let server = &world.server;
    let list = async |conditions: &str| {
        let path = format!("/admin/records?collection={NOTES}&{conditions}");
        let page = server.admin(Method::GET, &path, None).await;
        assert_eq!(page.status, 200, "{conditions}: {}", page.text);
        page.body
    };
    let keys = |page: &Value| -> Vec<String> {
        let key = |r: &Value| format!("{} {}", r["did"].as_str().unwrap(), r["rkey"].as_str().unwrap());
        page["records"].as_array().unwrap().iter().map(key).collect()
    };
    let [alice_a, alice_b, bob_a] =
        [(ALICE, "a"), (ALICE, "b"), (BOB, "a")].map(|(did, rkey)| format!("{did} {rkey}"));
    assert_eq!(keys(&list(&format!("repo={ALICE}")).await), [&*alice_b, &*alice_a]);
    assert_eq!(keys(&list("rkey=a").await), [&*bob_a, &*alice_a]);
    assert_eq!(keys(&list(&format!("repo={BOB}&rkey=a")).await), [&*bob_a]);
    assert!(keys(&list(&format!("repo={BOB}&rkey=b")).await).is_empty());

    // The filter of db.query; a percent sign of the text is escaped.
    let filter = |conditions: Value| format!("filter={}", encoded(&conditions.to_string()));
    let apples = json!([{ "field": "text", "op": "LIKE", "value": "%apples%" }]);
    assert_eq!(keys(&list(&filter(apples.clone())).await), [&*bob_a, &*alice_a]);
    let both =
        json!([{ "field": "text", "op": "LIKE", "value": "%\\%%" }, { "field": "n", "op": ">", "value": 1 }]);
    assert_eq!(keys(&list(&filter(both)).await), [&*bob_a]);
    let first = list(&format!("limit=1&{}", filter(apples.clone()))).await;
    assert_eq!(keys(&first), [&*bob_a]);
    let next = format!("limit=1&cursor={}&{}", first["cursor"].as_str().unwrap(), filter(apples));
    let second = list(&next).await;
    assert_eq!((keys(&second), second.get("cursor")), (vec![alice_a.clone()], None));
    // Rows have the same columns as in the list of all.
    let all = list("limit=100").await;
    assert_eq!(list(&filter(json!([{ "field": "n", "value": 2 }]))).await["records"][0], all["records"][1]);

    // From is inclusive, before is not.
    let time_of = |n: usize| encoded(all["records"][n]["indexed_at"].as_str().unwrap());
    assert_eq!(keys(&list(&format!("from={}", time_of(1))).await), [&*bob_a, &*alice_b]);
    assert_eq!(keys(&list(&format!("before={}", time_of(1))).await), [&*alice_a]);
    let page = list(&format!("from={}&before={}&valid=true", time_of(1), time_of(0))).await;
    assert_eq!(keys(&page), [&*alice_b]);
    assert!(keys(&list("label=spam").await).is_empty());
}

async fn bad_parameters_are_400(world: World) {
    for (method, path) in [
        (Method::GET, "/admin/records".to_owned()),
        (Method::GET, "/admin/records?collection=nope".to_owned()),
        (Method::GET, format!("/admin/records?collection={NOTES}&limit=many")),
        (Method::GET, format!("/admin/records?collection={NOTES}&cursor=%21%21")),
        (Method::GET, format!("/admin/records?collection={NOTES}&repo=nobody")),
        (Method::GET, format!("/admin/records?collection={NOTES}&rkey=a%00")),
        (Method::GET, format!("/admin/records?collection={NOTES}&rkey=a/b")),
        (Method::GET, format!("/admin/records?collection={NOTES}&label=%00")),
        (Method::GET, format!("/admin/records?collection={NOTES}&from=yesterday")),
        (Method::GET, format!("/admin/records?collection={NOTES}&before=1")),
        (Method::GET, format!("/admin/records?collection={NOTES}&filter=text")),
        (Method::GET, format!("/admin/records?collection={NOTES}&filter=%5B%5D")),
        (Method::GET, format!("/admin/records?collection={NOTES}&valid=maybe")),
        (Method::DELETE, "/admin/records".to_owned()),
        (Method::DELETE, "/admin/records?uri=at://did:plc:abc".to_owned()),
        (
            Method::DELETE,
            "/admin/records?uri=at://did:plc:abc/space/a.b.c/main/did:plc:def/com.example.note/a".to_owned(),
        ),
        (Method::DELETE, "/admin/records/collection".to_owned()),
        (Method::DELETE, "/admin/records/collection?collection=nope".to_owned()),
    ] {
        let answer = world.server.admin(method.clone(), &path, None).await;
        assert_eq!(answer.status, 400, "{method} {path}: {}", answer.text);
        assert!(!answer.error().is_empty());
    }
}
