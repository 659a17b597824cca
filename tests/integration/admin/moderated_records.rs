//! `/admin/records?moderated=true`: what operators have hidden, with the decisions.

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, NOTES, World};
use crate::support::instance::{Answer, OPERATOR};

async fn moderate(world: &World, subject: &str, action: &str) {
    let body = json!({
        "subject": subject, "action": action, "reason": "spam", "expires_at": "2999-01-01T00:00:00Z"
    });
    let made = world.server.admin(Method::POST, "/admin/moderation", Some(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
}

async fn records(world: &World, query: &str) -> Answer {
    let path = format!("/admin/records?collection={NOTES}{query}");
    world.server.admin(Method::GET, &path, None).await
}

/// The record keys of the pages of a list, each with whose decision it is shown with.
async fn all(world: &World, query: &str) -> Vec<(String, String)> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = records(world, &format!("&moderated=true{query}&cursor={cursor}")).await;
        assert_eq!(page.status, 200, "{}", page.text);
        for record in page.body["records"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            found.push((text(&record["rkey"]), text(&record["moderation"]["subject"])));
        }
        match page.body["cursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => return found,
        }
    }
}

crate::in_both_worlds!(
    moderated_records_are_listed_with_their_decision,
    records_of_a_moderated_account_are_listed_too,
    only_with_permission_and_few_conditions
);

async fn moderated_records_are_listed_with_their_decision(mut world: World) {
    world = world.with_notes().await;
    let mut uris = Vec::new();
    for n in 0..4 {
        let did = if n == 3 { BOB } else { ALICE };
        uris.push(world.note(did, &format!("n{n}"), json!({ "text": format!("{n}") })).await);
    }
    moderate(&world, &uris[0], "takedown").await;
    moderate(&world, &uris[2], "hide").await;
    moderate(&world, &uris[3], "hide").await;
    // One that is not here has no place in the list.
    moderate(&world, &format!("at://{ALICE}/{NOTES}/never"), "hide").await;
    let pair = |n: usize| (format!("n{n}"), uris[n].clone());
    assert_eq!(all(&world, "").await, [pair(3), pair(2), pair(0)]);
    assert_eq!(all(&world, "&limit=1").await, [pair(3), pair(2), pair(0)]);
    assert_eq!(all(&world, &format!("&limit=1&repo={ALICE}")).await, [pair(2), pair(0)]);
    assert_eq!(all(&world, &format!("&repo={ALICE}&rkey=n0")).await, [pair(0)]);
    assert_eq!(all(&world, &format!("&repo={ALICE}&rkey=n1")).await, []);

    let page = records(&world, "&moderated=true").await;
    let record = &page.body["records"][2];
    assert_eq!((&record["record"]["text"], &record["valid"]), (&json!("0"), &json!(true)), "{record}");
    let decision = &record["moderation"];
    assert_eq!((&decision["action"], &decision["reason"]), (&json!("takedown"), &json!("spam")));
    assert_eq!(
        (&decision["created_by"], &decision["expires_at"]),
        (&json!(OPERATOR), &json!("2999-01-01T00:00:00.000000Z"))
    );
    let visible = records(&world, "&moderated=false").await;
    let visible = visible.body["records"].as_array().unwrap();
    assert_eq!((visible.len(), visible[0].get("moderation")), (1, None));
}

async fn records_of_a_moderated_account_are_listed_too(mut world: World) {
    world = world.with_notes().await;
    let mut uris = Vec::new();
    for n in 0..4 {
        uris.push(world.note(ALICE, &format!("n{n}"), json!({ "text": format!("{n}") })).await);
    }
    world.note(BOB, "b", json!({ "text": "b" })).await;
    moderate(&world, &uris[1], "hide").await;
    moderate(&world, ALICE, "takedown").await;
    let of = |n: usize, subject: &str| (format!("n{n}"), subject.to_owned());
    let expected = [of(1, &uris[1]), of(3, ALICE), of(2, ALICE), of(0, ALICE)];
    for limit in ["", "&limit=1", "&limit=2", "&limit=3"] {
        assert_eq!(all(&world, &format!("&repo={ALICE}{limit}")).await, expected, "{limit}");
    }
    assert_eq!(all(&world, &format!("&repo={ALICE}&rkey=n2")).await, [of(2, ALICE)]);
    assert_eq!(all(&world, "").await, [of(1, &uris[1])], "an account is named for its records");
    assert_eq!(all(&world, &format!("&repo={BOB}")).await, []);
}

async fn only_with_permission_and_few_conditions(mut world: World) {
    world = world.with_notes().await;
    for (query, text) in [
        ("&moderated=perhaps", "moderated must be true or false"),
        ("&moderated=true&valid=true", "moderated=true goes with"),
        ("&moderated=true&label=spam", "moderated=true goes with"),
        ("&moderated=true&from=2020-01-01T00:00:00Z", "moderated=true goes with"),
        ("&moderated=true&filter=[]", "moderated=true goes with"),
        ("&moderated=true&rkey=a", "rkey with moderated=true needs repo"),
        ("&moderated=true&cursor=x", "cursor must be"),
        ("&moderated=true&cursor=r_1_2_%00", "the path or query holds a NUL"),
        ("&moderated=true&limit=x", "limit must be"),
    ] {
        let answer = records(&world, query).await;
        assert_eq!(answer.status, 400, "{query}: {}", answer.text);
        assert!(answer.error().starts_with(text), "{query}: {}", answer.text);
    }
    let reader = world.server.create_key(&["--did", OPERATOR, "--permissions", "records:read"]);
    let header = format!("Bearer {}", reader.trim());
    let get = async |query: &str| {
        let path = format!("/admin/records?collection={NOTES}{query}");
        world.server.request(Method::GET, &path, &[("authorization", &header)], None).await
    };
    assert_eq!(get("").await.status, 200);
    let refused = get("&moderated=true").await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    assert!(refused.error().contains("moderation:read"), "{}", refused.text);
}
