//! Notifications, preferences, reports and agents: scripts and rows of the index alone, which apps have beside views.

use serde_json::json;

use super::*;
use crate::support::instance::{procedure_lexicon, query_lexicon};

const READ: &str = "com.example.read";
const WRITE: &str = "com.example.write";

crate::in_both_worlds!(
    case_21_notifications_of_likes_and_follows,
    case_23_a_label_is_set_to_warn,
    case_24_a_second_report_is_refused,
    case_25_an_agent_finds_the_methods_and_calls_them
);

/// Calls a procedure as an account.
async fn write(world: &World, person: &Person, input: &Value) -> Answer {
    let token = person.token(&world.server.did(), json!({ "lxm": WRITE }));
    world.server.procedure(WRITE, &token, input).await
}

/// Answers [`READ`] and [`WRITE`] with scripts.
async fn bind(world: &World, read: Option<&str>, write: Option<&str>) {
    if let Some(source) = read {
        world.server.upload(query_lexicon(READ), None).await;
        world.server.bind(READ, source).await;
    }
    if let Some(source) = write {
        world.server.upload(procedure_lexicon(WRITE), None).await;
        world.server.bind_to(&format!("xrpc.procedure:{WRITE}"), source).await;
    }
}

async fn read_as(world: &World, person: &Person, query: &str) -> Value {
    let token = format!("Bearer {}", person.token(&world.server.did(), json!({ "lxm": READ })));
    let headers = [("x-client-key", world.server.client_key.as_str()), ("authorization", &token)];
    let answer = world.server.request(Method::GET, &format!("/xrpc/{READ}?{query}"), &headers, None).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

async fn case_21_notifications_of_likes_and_follows(mut world: World) {
    world = social(world).await;
    let own = json!({ "$type": LIKES, "subject": reference(ALICE, "a1") });
    let later = json!({ "$type": FOLLOWS, "subject": ALICE });
    put(&mut world, vec![(ALICE, LIKES, "own", own), (BOB, FOLLOWS, "f2", later)]).await;
    let source = format!(
        "function handle()
            local found = toarray({{}})
            local function add(reason, page)
                for _, record in ipairs(page.records) do
                    if record._did ~= caller_did then
                        found[#found + 1] = {{ reason = reason, uri = record.uri, by = record._did, at = record._indexed_at }}
                    end
                end
            end
            add('follow', db.backlinks{{ collection = '{FOLLOWS}', target = caller_did, path = 'subject' }})
            add('like', db.query{{ collection = '{LIKES}',
                filter = {{ field = 'subject.uri', op = 'PREFIX', value = 'at://' .. caller_did .. '/' }} }})
            table.sort(found, function(a, b) return a.at > b.at end)
            return {{ notifications = found }}
        end"
    );
    bind(&world, Some(&source), None).await;
    let found = read_as(&world, &person(&world, ALICE), "").await;
    let found = found["notifications"].as_array().unwrap().iter().map(|one| (&one["reason"], &one["by"]));
    let (follow, like) = (json!("follow"), json!("like"));
    let (bob, carol) = (json!(BOB), json!(CAROL));
    assert_eq!(
        found.collect::<Vec<_>>(),
        [(&follow, &bob), (&follow, &carol), (&like, &carol), (&like, &bob)],
        "no reply, and not what Alice did herself"
    );
}

async fn case_23_a_label_is_set_to_warn(world: World) {
    let (alice, bob) = (person(&world, ALICE), person(&world, BOB));
    // A preference is a row of the index alone, whose key is the label.
    let preferences = "com.example.labelPreference";
    world.server.upload(record_lexicon(preferences), None).await;
    let source = format!(
        "function handle()
            local levels = {{ ignore = true, show = true, warn = true, hide = true }}
            if type(input.val) ~= 'string' or input.val:sub(1, 1) == '!' or not levels[input.visibility] then
                error({{ status = 400, error = 'InvalidRequest', message = 'this label has no preference' }})
            end
            Record('{preferences}', {{ visibility = input.visibility }}, {{ open = true }}):set_rkey(input.val):save_local()
            return {{ val = input.val }}
        end"
    );
    bind(&world, None, Some(&source)).await;
    let view = json!({
        "view": 1, "from": { "collection": preferences, "did": "$viewer" },
        "output": { "feed": [{ "val": "@rkey", "visibility": "@field:visibility" }], "cursor": "@cursor" }
    });
    serve(&world, paged(json!({})), view).await;
    for visibility in ["hide", "warn"] {
        let set = write(&world, &alice, &json!({ "val": "spam", "visibility": visibility })).await;
        assert_eq!(set.status, 200, "{}", set.text);
    }
    assert_eq!(body_for(&world, &alice, "").await["feed"], json!([{ "val": "spam", "visibility": "warn" }]));
    assert_eq!(body_for(&world, &bob, "").await["feed"], json!([]), "they are Alice's own");
    let system = write(&world, &alice, &json!({ "val": "!hide", "visibility": "ignore" })).await;
    assert_eq!((system.status.as_u16(), system.error()), (400, "InvalidRequest"), "{}", system.text);
}

async fn case_24_a_second_report_is_refused(world: World) {
    let (alice, bob) = (person(&world, ALICE), person(&world, BOB));
    let reports = "com.example.report";
    world.server.upload(record_lexicon(reports), None).await;
    // The key of a report is its subject, so that an account has one of each.
    let source = format!(
        "function handle()
            local report = Record('{reports}', {{ subject = input.subject, reason = input.reason }}, {{ open = true }})
            report:set_rkey((input.subject:gsub('/', '~')))
            if db.get('at://' .. caller_did .. '/{reports}/' .. report._rkey) then
                error({{ status = 409, error = 'AlreadyReported' }})
            end
            report:save_local()
            return {{ uri = report._uri }}
        end"
    );
    bind(&world, None, Some(&source)).await;
    let report = json!({ "subject": uri(CAROL, "c1"), "reason": "spam" });
    assert_eq!(write(&world, &alice, &report).await.status, 200);
    let second = write(&world, &alice, &report).await;
    assert_eq!((second.status.as_u16(), second.error()), (409, "AlreadyReported"), "{}", second.text);
    assert_eq!(write(&world, &bob, &report).await.status, 200, "another account may");
    let of_subject = json!({
        "view": 1, "from": reports, "where": { "subject": "$subject" }, "group": { "by": ["reason"] },
        "output": { "feed": [{ "reason": "@field:reason", "reports": "@count" }] }
    });
    serve(&world, json!({ "subject": { "type": "string" } }), of_subject).await;
    let found = body(&world, &format!("subject={}", uri(CAROL, "c1"))).await;
    assert_eq!(found["feed"], json!([{ "reason": "spam", "reports": 2 }]));
}

async fn case_25_an_agent_finds_the_methods_and_calls_them(world: World) {
    let world = social(world).await;
    let view = keys_of(json!({ "where": { "mood": "$mood" } }));
    serve(&world, paged(json!({ "mood": { "type": "string", "description": "glad, sad or mad" } })), view)
        .await;
    // A key that reads lexicons is all that an agent needs to know of the instance.
    let key = json!({ "name": "agent", "permissions": ["lexicons:read"] });
    let made = world.server.admin(Method::POST, "/admin/api-keys", Some(&key)).await;
    let bearer = format!("Bearer {}", made.body["key"].as_str().unwrap_or_else(|| panic!("{}", made.text)));
    let headers = [("authorization", bearer.as_str())];
    let list = world.server.request(Method::GET, "/admin/lexicons", &headers, None).await;
    let names = list.text.matches("\"id\"").count();
    assert!(names >= 6 && list.text.contains(METHOD), "{}", list.text);
    let path = format!("/admin/lexicons/{METHOD}");
    let read = world.server.request(Method::GET, &path, &headers, None).await;
    let parameters = read.body.pointer("/lexicon_json/defs/main/parameters/properties").cloned();
    let parameters = parameters.unwrap_or_else(|| panic!("{}", read.text));
    assert_eq!(parameters["mood"]["description"], "glad, sad or mad");
    assert_eq!(column(&body(&world, "mood=sad&limit=5").await, "key"), ["b1"]);
}
