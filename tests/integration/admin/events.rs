//! `/admin/events`

use belvedere_standins::jetstream::{Frame, Place};
use http::Method;
use serde_json::json;

use crate::fixtures::{ALICE, LIST, NOTES};
use crate::support::instance::{OPERATOR, query_lexicon};

crate::in_both_worlds! {
    async fn admin_actions_are_logged_and_can_be_filtered(world) {
        let server = &world.server;
        server.upload(query_lexicon(LIST), None).await;
        server.bind(LIST, "function handle() return 1 end").await;
        server.admin(Method::DELETE, &format!("/admin/lexicons/{LIST}"), None).await;

        let lexicons = server.admin(Method::GET, "/admin/events?category=lexicon", None).await;
        let events = lexicons.body["events"].as_array().unwrap();
        let types: Vec<&str> = events.iter().map(|e| e["event_type"].as_str().unwrap()).collect();
        assert_eq!(types, ["lexicon.deleted", "lexicon.created"], "newest first");
        assert_eq!(events[1]["actor_did"], OPERATOR);
        assert_eq!(events[1]["subject"], LIST);
        assert_eq!(events[1]["severity"], "info");
        assert_eq!(events[1]["detail"], json!({ "revision": 1, "source": "manual" }));

        let count = async |query: &str| {
            let answer = server.admin(Method::GET, &format!("/admin/events?{query}"), None).await;
            assert_eq!(answer.status, 200, "{query}: {}", answer.text);
            answer.body["events"].as_array().unwrap().len()
        };
        assert_eq!(count("event_type=script.created").await, 1);
        assert_eq!(count("category=lexicon,script").await, 3);
        assert_eq!(count("subject=listNotes&category=lexicon").await, 2);
        assert_eq!(count("severity=error&category=lexicon").await, 0);
        assert_eq!(count("severity=info,warn&category=lexicon").await, 2);
    }

    async fn pages_follow_each_other_without_gaps(world) {
        let server = &world.server;
        for n in 0..7 {
            server.upload(query_lexicon(&format!("com.example.q{n}")), None).await;
        }
        let mut seen = Vec::new();
        let mut path = "/admin/events?category=lexicon&limit=3".to_owned();
        loop {
            let page = server.admin(Method::GET, &path, None).await;
            for event in page.body["events"].as_array().unwrap() {
                seen.push(event["subject"].as_str().unwrap().to_owned());
            }
            let Some(cursor) = page.body["cursor"].as_str() else { break };
            path = format!("/admin/events?category=lexicon&limit=3&cursor={cursor}");
        }
        let expected: Vec<String> = (0..7).rev().map(|n| format!("com.example.q{n}")).collect();
        assert_eq!(seen, expected);
    }

    async fn a_wrong_cid_is_an_event_and_no_record(mut world) {
        world = world.with_notes().await;
        let record = json!({ "$type": NOTES, "text": "forged" });
        world.push(|at, rev| Frame::forged(at, Place { did: ALICE, collection: NOTES, rkey: "bad", rev }, &record));
        world.note(ALICE, "good", json!({ "text": "fine" })).await;
        let events = world.server.admin(Method::GET, "/admin/events?event_type=record.cid_mismatch", None).await;
        let event = &events.body["events"][0];
        assert_eq!(event["severity"], "warn");
        assert_eq!(event["subject"], format!("at://{ALICE}/{NOTES}/bad"));
        assert_eq!(event["detail"]["rkey"], "bad");
        assert_eq!(world.server.records().await, 1);
    }

    async fn bad_parameters_are_400(world) {
        for query in ["severity=loud", "limit=x", "cursor=yesterday"] {
            let answer = world.server.admin(Method::GET, &format!("/admin/events?{query}"), None).await;
            assert_eq!(answer.status, 400, "{query}");
        }
    }
}
