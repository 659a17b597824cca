//! `POST /admin/lexicons` with a list.

use std::time::Duration;

use belvedere_standins::http_client;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use crate::fixtures::{LIST, NOTES, World};
use crate::support::instance::{Answer, Instance, procedure_lexicon, query_lexicon, record_lexicon};

const PATH: &str = "/admin/lexicons";

/// Longer than the stream waits for further changes before it subscribes again.
const SETTLED: Duration = Duration::from_secs(3);

async fn upload(server: &Instance, body: &Value) -> Answer {
    server.admin(Method::POST, PATH, Some(body)).await
}

/// A list of these lexicons, without backfills.
fn list(lexicons: impl IntoIterator<Item = Value>) -> Value {
    let element = |lexicon| json!({ "lexicon_json": lexicon, "backfill": false });
    json!({ "lexicons": lexicons.into_iter().map(element).collect::<Vec<_>>() })
}

async fn stored(server: &Instance, id: &str) -> Value {
    server.admin(Method::GET, &format!("{PATH}/{id}"), None).await.body
}

/// The values of a field of the answer's elements.
fn column<'a>(answer: &'a Answer, name: &str) -> Vec<&'a Value> {
    let lexicons = answer.body["lexicons"].as_array();
    lexicons.unwrap_or_else(|| panic!("{}", answer.text)).iter().map(|one| &one[name]).collect()
}

crate::in_both_worlds!(
    a_list_is_one_change_of_the_stream_and_stores_only_what_is_new,
    one_invalid_lexicon_of_many_leaves_nothing,
    bodies_have_limits,
    settings_are_kept_if_asked_for,
    a_preview_of_a_list_stores_nothing,
    only_new_record_lexicons_are_backfilled,
    lists_at_the_same_time_are_stored_one_after_the_other
);

async fn a_list_is_one_change_of_the_stream_and_stores_only_what_is_new(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    let before = world.stream.subscriptions().len();
    let ids: Vec<String> = (0..30).map(|n| format!("com.example.kind{n:02}")).collect();
    let all = || ids.iter().map(|id| record_lexicon(id)).chain([query_lexicon(LIST)]);
    let answer = upload(server, &list(all())).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let (mut changes, mut names): (Vec<_>, Vec<_>) = (vec!["new"; 30], ids.clone());
    // Its target collection was left out, so it is gone.
    changes.push("changed");
    names.push(LIST.to_owned());
    assert_eq!(
        (column(&answer, "change"), column(&answer, "id")),
        (
            changes.iter().map(|c| json!(c)).collect::<Vec<_>>().iter().collect(),
            names.iter().map(|n| json!(n)).collect::<Vec<_>>().iter().collect()
        )
    );
    assert_eq!(answer.body["lexicons"][30]["revision"], 2);
    world.wait_for_stream_of(&ids[0]).await;
    tokio::time::sleep(SETTLED).await;
    assert_eq!(world.stream.subscriptions().len(), before + 1, "one subscription for all");

    // The second time only one of them is another, and its whitespace is no change of the first.
    let mut changed: Vec<Value> = all().collect();
    changed[7]["description"] = json!("another");
    let text = list(changed).to_string().replacen("\"lexicon\":1", "\"lexicon\" : 1", 1);
    let key = format!("Bearer {}", server.admin_key);
    let answer = server.request(Method::POST, PATH, &[("authorization", &key)], Some(text)).await;
    let is_changed = |change: &Value| *change == "changed";
    assert_eq!(column(&answer, "change").into_iter().position(is_changed), Some(7), "{}", answer.text);
    assert_eq!(column(&answer, "change").into_iter().filter(|change| **change == "unchanged").count(), 30);
    assert_eq!(
        (&answer.body["lexicons"][7]["revision"], &answer.body["lexicons"][8]["revision"]),
        (&json!(2), &json!(1))
    );
    let revisions = async |id: &str| {
        let path = format!("{PATH}/{id}/revisions");
        let answer = server.admin(Method::GET, &path, None).await;
        let list = answer.body["revisions"].as_array().unwrap().clone();
        list.iter().map(|one| one["saved_by"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let operator = Some(crate::support::instance::OPERATOR.to_owned());
    assert_eq!(revisions(&ids[7]).await, [operator.clone(), operator.clone()]);
    assert_eq!(revisions(&ids[8]).await, [operator]);
    let events = async |kind: &str| {
        let path = format!("/admin/events/count?event_type=lexicon.{kind}");
        server.admin(Method::GET, &path, None).await.body["count"].clone()
    };
    assert_eq!((events("created").await, events("updated").await), (json!(32), json!(2)));
    assert_eq!(upload(server, &json!({ "lexicons": [] })).await.body, json!({ "lexicons": [] }));

    let with_documents = server.admin(Method::GET, "/admin/lexicons?documents=true", None).await;
    assert_eq!(with_documents.body[0]["lexicon_json"], record_lexicon(&ids[0]));
    assert_eq!(server.admin(Method::GET, "/admin/lexicons?documents=yes", None).await.status, 400);
}

async fn one_invalid_lexicon_of_many_leaves_nothing(world: World) {
    let server = &world.server;
    let ids: Vec<String> = (0..9).map(|n| format!("com.example.kind{n}")).collect();
    let good = list(ids.iter().map(|id| record_lexicon(id)));
    let with = |at: usize, element: Value| {
        let mut body = good.clone();
        body["lexicons"][at] = element;
        body
    };
    let invalid = json!({ "lexicon_json": { "lexicon": 2, "id": "com.example.bad", "defs": {} } });
    let mut two = with(3, invalid.clone());
    two["lexicons"][8] = json!({ "nothing": true });
    for (body, reasons) in [
        (
            with(3, invalid),
            vec!["1 of 9 lexicons is invalid, so none was stored: lexicons[3] (com.example.bad): "],
        ),
        (two, vec!["2 of 9 lexicons are invalid", "; lexicons[8]: missing field `lexicon_json`"]),
        (
            with(8, json!({ "lexicon_json": record_lexicon("COM.example.kind0") })),
            vec!["lexicons[8] (com.example.kind0): lexicons[0] has the same id"],
        ),
        (with(1, json!({ "lexicon_json": record_lexicon("com.example.k\0") })), vec!["NUL"]),
        (
            with(1, json!({ "lexicon_json": record_lexicon(NOTES), "token_cost": -1 })),
            vec!["lexicons[1] (com.example.note): token_cost"],
        ),
        (
            with(1, json!({ "lexicon_json": record_lexicon(NOTES), "action": "explode" })),
            vec!["lexicons[1]: unknown variant `explode`"],
        ),
        (json!({ "lexicons": {} }), vec!["invalid request body"]),
    ] {
        let answer = upload(server, &body).await;
        assert_eq!(answer.status, 400, "{}", answer.text);
        for reason in reasons {
            assert!(answer.error().contains(reason), "{reason}: {}", answer.error());
        }
    }
    let mut broken = good.to_string().into_bytes();
    let at = broken.windows(4).position(|bytes| bytes == b"main").unwrap();
    broken[at] = 0xff;
    let request = Request::post(PATH)
        .header("host", server.address.to_string())
        .header("authorization", format!("Bearer {}", server.admin_key))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(broken)))
        .unwrap();
    let mut connection = http_client::connect(server.address).await.unwrap();
    let answer = connection.send_request(request).await.unwrap();
    assert_eq!(answer.status(), 400);
    let text = String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
    assert!(text.contains("invalid request body"), "{text}");
    assert_eq!(server.admin(Method::GET, PATH, None).await.body, json!([]));
}

async fn bodies_have_limits(world: World) {
    let server = &world.server;
    let many = json!({ "lexicons": vec![json!({}); 2_001] });
    let answer = upload(server, &many).await;
    assert_eq!(
        (answer.status.as_u16(), answer.error()),
        (400, "at most 2000 lexicons fit in one call; this one has 2001")
    );
    let large = |id: &str, bytes: usize| {
        let mut lexicon = query_lexicon(id);
        lexicon["description"] = json!("x".repeat(bytes));
        lexicon
    };
    // One lexicon has the limit that it had before there were lists.
    let one = json!({ "lexicon_json": large(LIST, 1_100_000) });
    assert_eq!(upload(server, &one).await.status, 413);
    let answer = upload(server, &list([large(LIST, 1_100_000)])).await;
    assert!(answer.status == 400 && answer.error().contains("larger than 1048576 bytes"), "{}", answer.text);
    let several = list((0..3).map(|n| large(&format!("com.example.large{n}"), 900_000)));
    assert_eq!(upload(server, &several).await.status, 200);
    let nine = list((0..9).map(|n| large(&format!("com.example.large{n}"), 1_000_000)));
    assert_eq!(upload(server, &nine).await.status, 413);
}

async fn settings_are_kept_if_asked_for(world: World) {
    const DO: &str = "com.example.do";
    let server = &world.server;
    server.upload(record_lexicon(NOTES), None).await;
    let with_settings = json!({ "lexicons": [
        { "lexicon_json": query_lexicon(LIST), "target_collection": NOTES, "token_cost": 3 },
        { "lexicon_json": procedure_lexicon(DO), "target_collection": NOTES, "action": "delete" },
    ] });
    assert_eq!(upload(server, &with_settings).await.status, 200);
    let settings = async |id: &str| {
        let lexicon = stored(server, id).await;
        ["target_collection", "token_cost", "action", "revision"].map(|name| lexicon[name].clone())
    };
    let described = |mut lexicon: Value, text: &str| {
        lexicon["description"] = json!(text);
        json!({ "lexicon_json": lexicon })
    };
    let both = |text: &str, keep: Value| {
        let lexicons = [described(query_lexicon(LIST), text), described(procedure_lexicon(DO), text)];
        json!({ "lexicons": lexicons, "keep_settings": keep })
    };
    assert_eq!(column(&upload(server, &both("a", json!(true))).await, "change"), ["changed", "changed"]);
    assert_eq!(settings(LIST).await, [json!(NOTES), json!(3), json!(null), json!(2)]);
    assert_eq!(settings(DO).await, [json!(NOTES), json!(null), json!("delete"), json!(2)]);
    assert!(stored(server, LIST).await.get("warnings").is_none());

    // A value that is given is taken, also one that stands for the default.
    let mut given = both("a", json!(true));
    given["lexicons"][0]["token_cost"] = json!(7);
    given["lexicons"][1]["action"] = json!("upsert");
    given["lexicons"][1]["target_collection"] = json!("");
    assert_eq!(column(&upload(server, &given).await, "change"), ["changed", "changed"]);
    assert_eq!(settings(LIST).await, [json!(NOTES), json!(7), json!(null), json!(3)]);
    assert_eq!(settings(DO).await, [json!(null), json!(null), json!(null), json!(3)]);

    // Settings of a method mean nothing for a record, and its target would be refused.
    let record = json!({ "lexicons": [{ "lexicon_json": record_lexicon(LIST), "backfill": false }], "keep_settings": true });
    assert_eq!(column(&upload(server, &record).await, "change"), ["changed"]);
    assert_eq!(settings(LIST).await, [json!(null), json!(null), json!(null), json!(4)]);

    assert_eq!(column(&upload(server, &with_settings).await, "change"), ["changed", "changed"]);
    assert_eq!(column(&upload(server, &both("b", json!(null))).await, "change"), ["changed", "changed"]);
    assert_eq!(settings(LIST).await, [json!(null), json!(null), json!(null), json!(6)]);
    assert_eq!(settings(DO).await, [json!(null), json!(null), json!(null), json!(5)]);
}

async fn a_preview_of_a_list_stores_nothing(world: World) {
    let server = &world.server;
    server.upload(record_lexicon(NOTES), None).await;
    server.upload(query_lexicon(LIST), Some(NOTES)).await;
    let mut stricter = record_lexicon(NOTES);
    stricter["defs"]["main"]["record"]["required"] = json!(["text"]);
    let body = |keep: bool| {
        let mut body = list([
            stricter.clone(),
            query_lexicon(LIST),
            record_lexicon("com.example.other"),
            record_lexicon("com.example.other"),
        ]);
        body["keep_settings"] = json!(keep);
        body
    };
    let preview =
        async |keep: bool| server.admin(Method::POST, "/admin/lexicons/preview", Some(&body(keep))).await;
    let answer = preview(true).await;
    assert_eq!(column(&answer, "change"), ["changed", "unchanged", "new", "invalid"], "{}", answer.text);
    assert!(answer.body["lexicons"][0]["breaking"].is_string(), "{}", answer.text);
    assert_eq!(answer.body["lexicons"][3]["error"], "lexicons[2] has the same id");
    assert_eq!(answer.body["collections_left_out"], 0);
    assert_eq!(column(&preview(false).await, "change")[1], "changed", "the target would be removed");
    assert_eq!(server.admin(Method::GET, PATH, None).await.body.as_array().map(Vec::len), Some(2));
    assert_eq!(
        (stored(server, NOTES).await["revision"].clone(), stored(server, LIST).await["revision"].clone()),
        (json!(1), json!(1))
    );
}

async fn only_new_record_lexicons_are_backfilled(world: World) {
    let server = &world.server;
    let element = |lexicon: Value| json!({ "lexicon_json": lexicon });
    let body = json!({ "lexicons": [
        element(record_lexicon(NOTES)), element(query_lexicon(LIST)),
        { "lexicon_json": record_lexicon("com.example.other"), "backfill": false },
    ] });
    let started = async |body: &Value| {
        column(&upload(server, body).await, "backfill_job_id")
            .into_iter()
            .map(Value::is_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(started(&body).await, [true, false, false]);
    let mut changed = body.clone();
    changed["lexicons"][0]["lexicon_json"]["description"] = json!("another");
    assert_eq!(started(&changed).await, [false, false, false]);
    let jobs = server.admin(Method::GET, "/admin/backfill/status", None).await;
    assert_eq!(jobs.body.as_array().map(Vec::len), Some(1), "{}", jobs.text);
}

async fn lists_at_the_same_time_are_stored_one_after_the_other(world: World) {
    let server = &world.server;
    let ids: Vec<String> = (0..40).map(|n| format!("com.example.kind{n:02}")).collect();
    let version = |text: &str, reversed: bool| {
        let mut lexicons: Vec<Value> = ids
            .iter()
            .map(|id| {
                let mut lexicon = query_lexicon(id);
                lexicon["description"] = json!(text);
                lexicon
            })
            .collect();
        if reversed {
            lexicons.reverse();
        }
        list(lexicons)
    };
    for round in 0..5 {
        let (a, b) = (version(&format!("a{round}"), false), version(&format!("b{round}"), true));
        let mut one = query_lexicon(&ids[20]);
        one["description"] = json!(format!("c{round}"));
        let one = json!({ "lexicon_json": one });
        let (a, b, one) = tokio::join!(upload(server, &a), upload(server, &b), upload(server, &one));
        assert_eq!((a.status.as_u16(), b.status.as_u16()), (200, 200), "{} {}", a.text, b.text);
        assert!(one.status.is_success(), "{}", one.text);
    }
    let listed = server.admin(Method::GET, "/admin/lexicons?documents=true", None).await;
    let last = |lexicon: &Value| lexicon["lexicon_json"]["description"].clone();
    let listed = listed.body.as_array().unwrap();
    let all: Vec<Value> = listed.iter().filter(|lexicon| lexicon["id"] != *ids[20]).map(last).collect();
    assert!(
        all.len() == 39 && all.iter().all(|text| *text == all[0]),
        "a list is stored as a whole: {all:?}"
    );
    let revisions: Vec<&Value> = listed.iter().map(|lexicon| &lexicon["revision"]).collect();
    let expected = |id: &String| if *id == ids[20] { json!(15) } else { json!(10) };
    assert_eq!(revisions, ids.iter().map(expected).collect::<Vec<_>>().iter().collect::<Vec<_>>());
}
