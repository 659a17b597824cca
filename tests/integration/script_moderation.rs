//! `moderation.*`: scripts hide and take down, as operators do.

use belvedere_protocol::crypto::Algorithm;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, LIST, NOTES, World};
use crate::support::instance::{Answer, procedure_lexicon, query_lexicon};
use crate::support::plc::Person;

/// The caller of the procedures.
const CALLER: &str = "did:plc:callercallercallercallerc";

const PROCEDURE: &str = "com.example.moderate";

/// A record of Alice, and a caller of procedures.
struct Scene {
    world: World,
    uri: String,
    caller: Person,
}

impl Scene {
    async fn set(mut world: World) -> Self {
        world = world.with_notes().await;
        world.server.upload(procedure_lexicon(PROCEDURE), Some(NOTES)).await;
        let uri = world.note(ALICE, "a", json!({ "text": "a" })).await;
        let caller = world.plc.person(CALLER, Algorithm::Es256k);
        Self { world, uri, caller }
    }

    /// Binds a procedure with this body of `handle`, and calls it.
    async fn call(&self, body: &str) -> Answer {
        let server = &self.world.server;
        let script = format!("function handle()\n{body}\nend");
        server.bind_to(&format!("xrpc.procedure:{PROCEDURE}"), &script).await;
        let token = self.caller.token(&server.did(), json!({ "lxm": PROCEDURE }));
        server.procedure(PROCEDURE, &token, &json!({})).await
    }
}

/// The number of records in the built-in list.
async fn listed(world: &World) -> usize {
    let answer = world.server.xrpc(LIST).await;
    answer.body["records"].as_array().unwrap_or_else(|| panic!("{}", answer.text)).len()
}

async fn decisions(world: &World) -> Vec<Value> {
    let page = world.server.admin(Method::GET, "/admin/moderation", None).await;
    page.body["moderation"].as_array().unwrap_or_else(|| panic!("{}", page.text)).clone()
}

async fn events(world: &World) -> Vec<Value> {
    let events = world.server.admin(Method::GET, "/admin/events?category=moderation", None).await;
    events.body["events"].as_array().unwrap_or_else(|| panic!("{}", events.text)).clone()
}

crate::in_both_worlds!(
    a_procedure_decides_and_lifts,
    a_record_script_hides_what_arrives,
    a_query_only_reads,
    a_dry_run_reports_decisions,
    invalid_arguments
);

async fn a_procedure_decides_and_lifts(world: World) {
    let scene = Scene::set(world).await;
    let Scene { world, uri, .. } = &scene;
    let hide = format!(
        "  local exp = {{ expires_at = \"2999-01-01T00:00:00Z\" }}\n  \
         local changed = moderation.hide(\"{uri}\", \" spam \", exp)\n  \
         local again = moderation.hide(\"{uri}\", \"spam\", exp)\n  \
         return {{ changed = changed, again = again, status = moderation.status(\"{uri}\"),\n    \
         count = db.count(\"{NOTES}\"), there = db.get(\"{uri}\") ~= nil }}"
    );
    let answer = scene.call(&hide).await;
    let trigger = format!("xrpc.procedure:{PROCEDURE}");
    let status = &answer.body["status"];
    assert_eq!(
        (&answer.body["changed"], &answer.body["again"]),
        (&json!(true), &json!(false)),
        "{}",
        answer.text
    );
    assert_eq!((&answer.body["count"], &answer.body["there"]), (&json!(0), &json!(true)));
    assert_eq!((&status["action"], &status["reason"]), (&json!("hide"), &json!("spam")));
    assert_eq!(
        (&status["created_by"], &status["expires_at"]),
        (&json!(trigger), &json!("2999-01-01T00:00:00.000000Z"))
    );
    assert_eq!(listed(world).await, 0);
    assert_eq!(decisions(world).await[0]["created_by"], trigger.as_str());

    // An operator replaces its decision knowingly, and it does not replace that of the operator.
    let mut body = json!({ "subject": uri, "action": "takedown", "reason": "by hand" });
    let refused = world.server.admin(Method::POST, "/admin/moderation", Some(&body)).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    let id = decisions(world).await[0]["id"].clone();
    let text = format!(
        "decision {id} of {trigger} is in force on it (hide): spam. To replace it, send \"replaces\": {id}"
    );
    assert_eq!(refused.error(), text);
    body["replaces"] = id;
    let made = world.server.admin(Method::POST, "/admin/moderation", Some(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let hide = format!(
        "  local ok, why = pcall(moderation.hide, \"{uri}\", \"spam\")\n  return {{ ok, tostring(why) }}"
    );
    let answer = scene.call(&hide).await;
    assert_eq!(answer.body[0], false, "{}", answer.text);
    let why = answer.body[1].as_str().unwrap();
    assert!(why.contains("is in force on it (takedown): by hand"), "{why}");
    let lift = format!(
        "  local lifted = moderation.lift(\"{uri}\", \"fine\")\n  local again = moderation.lift(\"{uri}\")\n  \
         return {{ lifted = lifted, again = again, status = moderation.status(\"{uri}\") == nil }}"
    );
    let answer = scene.call(&lift).await;
    assert_eq!(answer.body, json!({ "lifted": true, "again": false, "status": true }), "{}", answer.text);
    assert_eq!(listed(world).await, 1);
    let lifted = &decisions(world).await[0];
    assert_eq!((&lifted["lifted_by"], &lifted["lift_reason"]), (&json!(trigger), &json!("fine")));

    let answer = scene.call(&format!("  return {{ moderation.takedown(\"{ALICE}\", \"spam\") }}")).await;
    assert_eq!(answer.body, json!([true]), "{}", answer.text);
    assert_eq!(listed(world).await, 0);
    let events = events(world).await;
    let of = |n: usize| {
        (events[n]["event_type"].as_str().unwrap(), events[n]["detail"]["script"].as_str().unwrap())
    };
    assert_eq!(of(0), ("moderation.created", trigger.as_str()));
    assert_eq!(of(1), ("moderation.lifted", trigger.as_str()));
    assert_eq!((events.len(), events[3]["detail"]["reason"].as_str()), (4, Some("spam")));
}

async fn a_record_script_hides_what_arrives(mut world: World) {
    world = world.with_notes().await;
    let script = "function handle()\n  if record.text == \"buy now\" then moderation.hide(uri, \"an advertisement\") end\n  \
                  return record\nend";
    world.server.bind_to(&format!("record.index:{NOTES}"), script).await;
    world.push(|at, rev| {
        let place = belvedere_standins::jetstream::Place { did: ALICE, collection: NOTES, rkey: "a", rev };
        belvedere_standins::jetstream::Frame::create(at, place, &json!({ "$type": NOTES, "text": "buy now" }))
    });
    world.note(BOB, "b", json!({ "text": "b" })).await;
    let decided = async |_: &crate::support::instance::Instance| !decisions(&world).await.is_empty();
    world.server.eventually("the record is hidden", decided).await;
    let hidden = format!("at://{ALICE}/{NOTES}/a");
    let there = async |server: &crate::support::instance::Instance| {
        server.xrpc(&format!("{LIST}?uri={hidden}")).await.text.contains("buy now")
    };
    world.server.eventually("the record answers at its URI", there).await;
    assert_eq!(listed(&world).await, 1);
    assert_eq!(decisions(&world).await[0]["created_by"], format!("record.index:{NOTES}"));
}

async fn a_query_only_reads(world: World) {
    let scene = Scene::set(world).await;
    let Scene { world, uri, .. } = &scene;
    world.server.upload(query_lexicon("com.example.peek"), None).await;
    let script = format!(
        "function handle()\n  local ok, why = pcall(moderation.hide, \"{uri}\", \"spam\")\n  \
         local lifted, still = pcall(moderation.lift, \"{uri}\")\n  \
         return {{ ok = ok, code = why.code, lifted = lifted, still = still.code, none = moderation.status(\"{uri}\") == nil }}\nend"
    );
    world.server.bind("com.example.peek", &script).await;
    let answer = world.server.xrpc("com.example.peek").await;
    let refused =
        json!({ "ok": false, "code": "forbidden", "lifted": false, "still": "forbidden", "none": true });
    assert_eq!(answer.body, refused, "{}", answer.text);
    assert_eq!(listed(world).await, 1);
}

async fn a_dry_run_reports_decisions(world: World) {
    let scene = Scene::set(world).await;
    let Scene { world, uri, .. } = &scene;
    let source = format!(
        "function handle()\n  moderation.lift(\"{uri}\")\n  return {{ moderation.takedown(\"{uri}\", \"spam\") }}\nend"
    );
    let body = json!({ "id": "job.run:sweep", "body": source, "event": { "type": "job", "input": {} } });
    let answer = world.server.admin(Method::POST, "/admin/scripts/dry-run", Some(&body)).await;
    let expected = json!([{
        "kind": "moderation.create", "subject": uri, "action": "takedown", "reason": "spam", "expires_at": null
    }]);
    assert_eq!(answer.body["writes"], expected, "{}", answer.text);
    assert_eq!((listed(world).await, decisions(world).await.len(), events(world).await.len()), (1, 0, 0));
}

async fn invalid_arguments(world: World) {
    let scene = Scene::set(world).await;
    let Scene { world, uri, .. } = &scene;
    for (function, arguments, text) in [
        ("hide", r#""alice.test", "x""#, "moderation.hide: subject must be"),
        ("hide", r#""at://alice.test/a.b.c/d", "x""#, "subject must be"),
        ("hide", r#""did:plc:a\0b", "x""#, "subject must be"),
        ("takedown", r#"URI, "  ""#, "moderation.takedown: reason must have"),
        ("takedown", r#"URI, "a\0b""#, "reason must have"),
        ("takedown", r#"URI, ("x"):rep(2001)"#, "reason must have"),
        ("takedown", "URI", "moderation.takedown: reason: string expected"),
        ("hide", r#"URI, "x", { expires_at = "soon" }"#, "moderation.hide: expires_at is not a time"),
        ("hide", r#"URI, "x", { expires_at = "2020-01-01T00:00:00Z" }"#, "expires_at must be in the future"),
        ("hide", r#"URI, "x", { expires = "2999-01-01T00:00:00Z" }"#, "unknown option"),
        ("hide", "nil, \"x\"", "moderation.hide: subject: string expected"),
        ("lift", "\"x\"", "moderation.lift: subject must be"),
        ("lift", r#"URI, "a\0b""#, "moderation.lift: reason must have"),
        ("status", "\"x\"", "moderation.status: subject must be"),
    ] {
        let arguments = arguments.replace("URI", &format!("\"{uri}\""));
        let body = format!(
            "  local ok, why = pcall(moderation.{function}, {arguments})\n  return {{ ok, tostring(why) }}"
        );
        let answer = scene.call(&body).await;
        assert_eq!(answer.body[0], false, "{function}({arguments}): {}", answer.text);
        assert!(answer.body[1].as_str().unwrap().contains(text), "{function}({arguments}): {}", answer.text);
    }
    assert_eq!(decisions(world).await.len(), 0);
    let body = format!("  for i = 1, 501 do moderation.hide(\"{uri}\", \"n\" .. i) end\n  return {{}}");
    let answer = scene.call(&body).await;
    assert!(answer.status.is_server_error(), "{}", answer.text);
    assert_eq!(decisions(world).await[0]["reason"], "n500");
}
