//! `/admin/lexicons`

use crate::fixtures::World;
use http::Method;
use serde_json::json;

use crate::fixtures::{ALICE, LIST, NOTES};
use crate::support::instance::{query_lexicon, record_lexicon};

crate::in_both_worlds!(
    a_lexicon_is_created_revised_shown_and_deleted,
    a_space_is_declared_by_a_lexicon,
    an_unknown_target_collection_is_a_warning_until_it_is_uploaded,
    a_query_that_answers_nothing_is_a_warning_until_it_has_a_target_or_a_script,
    a_lexicon_that_says_less_than_it_seems_is_accepted_with_warnings,
    a_new_record_lexicon_takes_effect_on_the_running_stream,
    invalid_lexicons_are_refused_with_the_reason
);

async fn a_lexicon_is_created_revised_shown_and_deleted(world: World) {
    let server = &world.server;
    server.upload(record_lexicon(NOTES), None).await;
    let body = json!({ "lexicon_json": query_lexicon(LIST), "target_collection": NOTES, "token_cost": 3 });
    let answer = server.admin(Method::POST, "/admin/lexicons", Some(&body)).await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.body, json!({ "id": LIST, "revision": 1, "backfill_job_id": null }));
    // Null is the same as absence.
    let body = json!({ "lexicon_json": query_lexicon(LIST), "target_collection": NOTES, "token_cost": 3,
        "backfill": null, "action": null });
    let answer = server.admin(Method::POST, "/admin/lexicons", Some(&body)).await;
    assert_eq!((answer.status.as_u16(), &answer.body["revision"]), (200, &json!(2)));
    let (record, other) = (record_lexicon("com.example.other"), "/admin/lexicons/com.example.other");
    let record = json!({ "lexicon_json": record, "backfill": null });
    assert_eq!(server.admin(Method::POST, "/admin/lexicons", Some(&record)).await.status, 201);
    assert_eq!(server.admin(Method::GET, other, None).await.body["backfill"], true);
    assert_eq!(server.admin(Method::DELETE, other, None).await.status, 204);

    let one = server.admin(Method::GET, &format!("/admin/lexicons/{LIST}"), None).await;
    assert_eq!(one.status, 200);
    assert_eq!(one.body["lexicon_json"], query_lexicon(LIST));
    assert_eq!(one.body["lexicon_type"], "query");
    assert_eq!(one.body["target_collection"], NOTES);
    assert_eq!(one.body["token_cost"], 3);
    assert_eq!(one.body["source"], "manual");
    assert!(one.body["created_at"].as_str().unwrap().ends_with('Z'));

    let list = server.admin(Method::GET, "/admin/lexicons", None).await;
    assert_eq!(list.body.as_array().unwrap().len(), 2);
    assert!(list.body[0].get("lexicon_json").is_none());

    let path = format!("/admin/lexicons/{LIST}");
    assert_eq!(server.admin(Method::DELETE, &path, None).await.status, 204);
    assert_eq!(server.admin(Method::DELETE, &path, None).await.status, 404);
    assert_eq!(server.admin(Method::GET, &path, None).await.status, 404);
    assert_eq!(server.xrpc(LIST).await.error(), "method not found");
}

async fn a_space_is_declared_by_a_lexicon(world: World) {
    const GROUP: &str = "com.example.group";
    let server = &world.server;
    let main = json!({ "type": "space", "key": "any", "name": "Group", "collections": [NOTES] });
    let upload = async |main: &serde_json::Value| {
        let lexicon = json!({ "lexicon": 1, "id": GROUP, "defs": { "main": main } });
        server.admin(Method::POST, "/admin/lexicons", Some(&json!({ "lexicon_json": lexicon }))).await
    };
    for (field, value) in
        [("key", json!(7)), ("name", json!("")), ("name", json!("x".repeat(65))), ("collections", json!([7]))]
    {
        let mut wrong = main.clone();
        wrong[field] = value;
        let answer = upload(&wrong).await;
        assert_eq!(answer.status, 400, "{}", answer.text);
        assert!(answer.error().contains(&format!("defs.main.{field}")), "{}", answer.text);
    }
    let made = upload(&main).await;
    assert_eq!(
        (made.status.as_u16(), &made.body),
        (201, &json!({ "id": GROUP, "revision": 1, "backfill_job_id": null }))
    );
    let one = server.admin(Method::GET, &format!("/admin/lexicons/{GROUP}"), None).await;
    assert_eq!((&one.body["lexicon_type"], &one.body["backfill"]), (&json!("space"), &json!(false)));
    let list = server.admin(Method::GET, "/admin/lexicons", None).await;
    assert_eq!(list.body[0]["lexicon_type"], "space", "{}", list.text);
    let tracked = server.admin(Method::GET, "/admin/records/collections", None).await;
    assert_eq!(tracked.body, json!({ "collections": [] }), "a space is no collection");
}

async fn an_unknown_target_collection_is_a_warning_until_it_is_uploaded(world: World) {
    let server = &world.server;
    let upload = async |lexicon, target: Option<&str>| {
        let body = json!({ "lexicon_json": lexicon, "target_collection": target });
        server.admin(Method::POST, "/admin/lexicons", Some(&body)).await.body
    };
    let shown = async || server.admin(Method::GET, &format!("/admin/lexicons/{LIST}"), None).await.body;
    let listed = async || {
        let all = server.admin(Method::GET, "/admin/lexicons", None).await.body;
        all.as_array().unwrap().iter().find(|lexicon| lexicon["id"] == LIST).cloned().unwrap()
    };
    let made = upload(query_lexicon(LIST), Some(NOTES)).await;
    assert_eq!((&made["id"], made["warnings"].as_array().map(Vec::len)), (&json!(LIST), Some(1)), "{made}");
    assert!(
        made["warnings"][0]
            .as_str()
            .unwrap()
            .starts_with(&format!("target_collection {NOTES} has no record lexicon"))
    );
    assert_eq!(listed().await["warnings"], made["warnings"]);
    assert_eq!(shown().await["warnings"], made["warnings"]);
    // A lexicon of another kind under this name does not count.
    upload(query_lexicon(NOTES), None).await;
    assert_eq!(listed().await["warnings"], made["warnings"]);

    assert!(upload(record_lexicon(NOTES), None).await.get("warnings").is_none());
    assert!(listed().await.get("warnings").is_none() && shown().await.get("warnings").is_none());
    assert!(upload(query_lexicon(LIST), Some(NOTES)).await.get("warnings").is_none());
    server.admin(Method::DELETE, &format!("/admin/lexicons/{NOTES}"), None).await;
    assert_eq!(listed().await["warnings"], made["warnings"]);
}

async fn a_query_that_answers_nothing_is_a_warning_until_it_has_a_target_or_a_script(world: World) {
    let server = &world.server;
    let body = json!({ "lexicon_json": query_lexicon(LIST) });
    let warnings = async || {
        let shown = server.admin(Method::GET, &format!("/admin/lexicons/{LIST}"), None).await.body;
        let all = server.admin(Method::GET, "/admin/lexicons", None).await.body;
        assert_eq!(all[0].get("warnings"), shown.get("warnings"));
        shown["warnings"].clone()
    };
    let previewed = server.admin(Method::POST, "/admin/lexicons/preview", Some(&body)).await.body;
    let expected = &previewed["lexicons"][0]["warnings"];
    assert!(expected[0].as_str().unwrap().contains("has no target_collection"), "{previewed}");
    let made = server.admin(Method::POST, "/admin/lexicons", Some(&body)).await;
    assert_eq!((made.status.as_u16(), &made.body["warnings"]), (201, expected));
    assert_eq!(&warnings().await, expected);

    let script = json!({ "id": format!("xrpc.query:{LIST}"), "body": "function handle() return { records = {} } end" });
    assert_eq!(server.admin(Method::POST, "/admin/scripts", Some(&script)).await.status, 201);
    assert_eq!(warnings().await, json!(null));
    server.admin(Method::DELETE, &format!("/admin/scripts/xrpc.query:{LIST}"), None).await;
    assert_eq!(&warnings().await, expected);
    server.upload(record_lexicon(NOTES), None).await;
    let with_target = json!({ "lexicon_json": query_lexicon(LIST), "target_collection": NOTES });
    server.admin(Method::POST, "/admin/lexicons", Some(&with_target)).await;
    let shown = server.admin(Method::GET, &format!("/admin/lexicons/{LIST}"), None).await.body;
    assert_eq!(shown.get("warnings"), None);
}

async fn a_lexicon_that_says_less_than_it_seems_is_accepted_with_warnings(world: World) {
    let server = &world.server;
    let mut lexicon = record_lexicon(NOTES);
    lexicon["defs"]["main"]["record"]["properties"] = json!({
        "at": { "type": "string", "format": "dattime" }, "part": { "type": "ref", "ref": "#prat" } });
    lexicon["defs"]["either"] = json!({ "type": "union", "refs": ["com.example.other"] });
    let body = json!({ "lexicon_json": lexicon, "backfill": false });
    let previewed = server.admin(Method::POST, "/admin/lexicons/preview", Some(&body)).await.body;
    let warnings = &previewed["lexicons"][0]["warnings"];
    let starts = |n: usize, text: &str| warnings[n].as_str().is_some_and(|warning| warning.starts_with(text));
    assert!(starts(0, "defs.either: the specification has no named definitions of type union"), "{warnings}");
    assert!(
        starts(1, "defs.main.record.properties.at.format: the format \"dattime\" is not known here"),
        "{warnings}"
    );
    assert!(
        starts(2, "defs.main.record.properties.part.ref: \"#prat\" is not defined in this lexicon"),
        "{warnings}"
    );
    assert_eq!(warnings.as_array().map(Vec::len), Some(3));
    let made = server.admin(Method::POST, "/admin/lexicons", Some(&body)).await;
    assert_eq!((made.status.as_u16(), &made.body["warnings"]), (201, warnings));
    let shown = server.admin(Method::GET, &format!("/admin/lexicons/{NOTES}"), None).await.body;
    let listed = server.admin(Method::GET, "/admin/lexicons", None).await.body;
    assert_eq!((&shown["warnings"], &listed[0]["warnings"]), (warnings, warnings));
}

async fn a_new_record_lexicon_takes_effect_on_the_running_stream(mut world: World) {
    world = world.with_notes().await;
    world.note(ALICE, "first", json!({ "text": "one" })).await;
    // A second collection, while the stream runs.
    let other = "com.example.other";
    world.server.upload(record_lexicon(other), None).await;
    world.server.upload(query_lexicon("com.example.listOther"), Some(other)).await;
    let record = json!({ "$type": other, "text": "hello" });
    world.wait_for_stream_of(other).await;
    world.push(|at, rev| {
        belvedere_standins::jetstream::Frame::create(
            at,
            belvedere_standins::jetstream::Place { did: ALICE, collection: other, rkey: "a", rev },
            &record,
        )
    });
    world
        .server
        .eventually("the record of the new collection", async |server| {
            server.xrpc("com.example.listOther").await.body["records"]
                .as_array()
                .is_some_and(|r| r.len() == 1)
        })
        .await;
}

async fn invalid_lexicons_are_refused_with_the_reason(world: World) {
    let good = query_lexicon("com.example.q");
    let with = |key: &str, value: serde_json::Value| {
        let mut lexicon = good.clone();
        lexicon[key] = value;
        json!({ "lexicon_json": lexicon })
    };
    for (body, reason) in [
        (json!({}), "lexicon_json"),
        (json!({ "lexicon_json": 5 }), "lexicon"),
        (with("lexicon", json!(2)), "lexicon"),
        (with("lexicon", json!("1")), "lexicon"),
        (with("id", json!("")), "id"),
        (with("id", json!("not an nsid")), "id"),
        (with("defs", json!(null)), "defs"),
        (json!({ "lexicon_json": good, "target_collection": "nope" }), "target_collection"),
        (json!({ "lexicon_json": good, "token_cost": -1 }), "token_cost"),
        (json!({ "lexicon_json": good, "action": "explode" }), "explode"),
    ] {
        let answer = world.server.admin(Method::POST, "/admin/lexicons", Some(&body)).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text);
        assert!(answer.error().contains(reason), "{body}: {}", answer.error());
    }
    let key = format!("Bearer {}", world.server.admin_key);
    let headers = [("authorization", key.as_str())];
    let answer = world.server.request(Method::POST, "/admin/lexicons", &headers, Some("{".into())).await;
    assert_eq!(answer.status, 400);
    assert!(answer.error().starts_with("invalid request body"), "{}", answer.error());
}
