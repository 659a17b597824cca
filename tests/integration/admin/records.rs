//! `/admin/records` and `/admin/stats`

use http::Method;
use serde_json::json;

use crate::fixtures::{ALICE, BOB, NOTES};

crate::in_both_worlds! {
    async fn records_are_listed_newest_first_with_their_metadata(mut world) {
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
        assert_eq!(stats.body, json!({ "total_records": 5, "collections": [{ "collection": NOTES, "count": 5, "invalid": 0 }] }));
    }

    async fn a_record_and_a_collection_are_deleted(mut world) {
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

    async fn bad_parameters_are_400(world) {
        for (method, path) in [
            (Method::GET, "/admin/records".to_owned()),
            (Method::GET, "/admin/records?collection=nope".to_owned()),
            (Method::GET, format!("/admin/records?collection={NOTES}&limit=many")),
            (Method::GET, format!("/admin/records?collection={NOTES}&cursor=%21%21")),
            (Method::DELETE, "/admin/records".to_owned()),
            (Method::DELETE, "/admin/records?uri=at://did:plc:abc".to_owned()),
            (Method::DELETE, "/admin/records/collection".to_owned()),
            (Method::DELETE, "/admin/records/collection?collection=nope".to_owned()),
        ] {
            let answer = world.server.admin(method.clone(), &path, None).await;
            assert_eq!(answer.status, 400, "{method} {path}: {}", answer.text);
            assert!(!answer.error().is_empty());
        }
    }
}
