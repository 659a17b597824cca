//! `/admin/scripts/check` and `/admin/scripts/types`

use crate::fixtures::World;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{LIST, NOTES};
use crate::support::instance::Answer;
use crate::support::instance::{Instance, procedure_lexicon, query_lexicon, record_lexicon};

const CHECK: &str = "/admin/scripts/check";

async fn check(server: &Instance, id: &str, source: &str) -> Answer {
    server.admin(Method::POST, CHECK, Some(&json!({ "id": id, "body": source }))).await
}

crate::in_both_worlds!(
    a_check_says_what_is_wrong_and_saves_nothing,
    a_check_warns_of_what_does_not_exist,
    types_describe_the_api_and_the_triggers
);

async fn a_check_says_what_is_wrong_and_saves_nothing(world: World) {
    let server = &world.server;
    server.upload(query_lexicon(LIST), None).await;
    let id = format!("xrpc.query:{LIST}");
    let good = check(server, &id, "function handle() return {} end").await;
    assert_eq!(
        (good.status.as_u16(), &good.body),
        (200, &json!({ "ok": true, "diagnostics": [], "outbound_xrpcs": [] }))
    );
    for (source, expected) in [
        (
            "function handle()\n  x y\nend",
            json!({ "kind": "syntax", "line": 2, "column": 5, "end_line": 2, "end_column": 6,
                "message": "syntax error near 'y'" }),
        ),
        (
            "function handle()",
            json!({ "kind": "syntax", "line": 1, "column": 18, "end_line": 1, "end_column": 18,
                "message": "'end' expected near <eof>" }),
        ),
        (
            "\n  local a = nil + 1",
            json!({ "kind": "runtime", "line": 2, "column": 3, "end_line": 2, "end_column": 20,
                "message": "attempt to perform arithmetic on a nil value" }),
        ),
        (
            "handle = 5",
            json!({ "kind": "missing_handle", "line": null, "column": null, "end_line": null, "end_column": null }),
        ),
        (
            "local n = 0\nwhile true do n = n + 1 end",
            json!({ "kind": "limit", "line": 2, "column": 1, "end_line": 2, "end_column": 28 }),
        ),
    ] {
        let answer = check(server, &id, source).await;
        assert_eq!((answer.status.as_u16(), &answer.body["ok"]), (200, &json!(false)), "{source}");
        let found = &answer.body["diagnostics"][0];
        assert_eq!(found["severity"], "error");
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&found[name], value, "{source}: {found}");
        }
    }
    for bad in [
        json!({ "id": "nope", "body": "" }),
        json!({ "id": id }),
        json!({ "id": "xrpc.query:x", "body": "" }),
    ] {
        assert_eq!(server.admin(Method::POST, CHECK, Some(&bad)).await.status, 400, "{bad}");
    }
    assert_eq!(server.admin(Method::GET, "/admin/scripts", None).await.body, json!([]));
    assert_eq!(
        server.admin(Method::GET, "/admin/scripts/deleted", None).await.body,
        json!({ "scripts": [] })
    );
}

async fn a_check_warns_of_what_does_not_exist(world: World) {
    let server = &world.server;
    server.upload(query_lexicon(LIST), None).await;
    server.upload(procedure_lexicon("com.example.put"), None).await;
    let source = "function handle()\n  xrpc.query('com.example.put')\n  xrpc.query(\"com.example.other\")\n  return env.KEY .. env.SET\nend\nfunction unused() return tostirng(db.qurey{}) end\n\
        local function reads()\n  db.query{ collection = 'com.example.notes' }\n  db.raw([[SELECT uir\n FROM records WHERE did = $1]], { '' })\nend";
    let variable = json!({ "key": "SET", "value": "secret value" });
    assert!(server.admin(Method::POST, "/admin/script-variables", Some(&variable)).await.status.is_success());
    let answer = check(server, &format!("record.index:{NOTES}"), source).await;
    assert_eq!(answer.body["ok"], true);
    assert_eq!(answer.body["outbound_xrpcs"], json!(["com.example.other", "com.example.put"]));
    let found: Vec<Value> = answer.body["diagnostics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| {
            json!([found["severity"], found["kind"], found["line"], found["column"], found["end_column"]])
        })
        .collect();
    assert_eq!(
        found,
        [
            json!(["warning", "unknown_name", 6, 26, 34]),
            json!(["warning", "unknown_name", 6, 35, 43]),
            json!(["warning", "no_lexicon", null, null, null]),
            json!(["warning", "kind_mismatch", 2, 15, 30]),
            json!(["warning", "unknown_method", 3, 15, 32]),
            json!(["warning", "unset_variable", 4, 14, 17]),
            json!(["warning", "unknown_collection", 8, 27, 44]),
            json!(["warning", "sql", 9, 12, 22]),
        ]
    );
    let answer = check(server, "xrpc.query:com.example.put", "function handle() end").await;
    assert_eq!(answer.body["diagnostics"][0]["kind"], "kind_mismatch");

    // Many warnings are cut.
    let many = format!("function handle() end\n{}", "x = env.A\n".repeat(300));
    let answer = check(server, &format!("xrpc.query:{LIST}"), &many).await;
    assert_eq!(answer.body["diagnostics"].as_array().unwrap().len(), 100);
}

async fn types_describe_the_api_and_the_triggers(world: World) {
    let server = &world.server;
    server.upload(record_lexicon(NOTES), None).await;
    let variable = json!({ "key": "API_KEY", "value": "secret value" });
    server.admin(Method::POST, "/admin/script-variables", Some(&variable)).await;
    let all = server.admin(Method::GET, "/admin/scripts/types", None).await;
    assert_eq!(all.status, 200);
    assert!(all.body["annotations"].as_str().unwrap().starts_with("---@meta belvedere"));
    assert_eq!(all.body["variables"], json!(["API_KEY"]));
    assert!(!all.text.contains("secret value"));
    let triggers = all.body["triggers"].as_array().unwrap();
    assert_eq!(triggers.len(), 13);
    // A view is compared with the lexicon of its method, which is not here.
    for trigger in triggers.iter().filter(|trigger| trigger["kind"] != "xrpc.view") {
        let is_name = trigger["subject"] == "job_type" || trigger["subject"] == "name";
        let subject = if is_name { "recount" } else { "com.example.thing" };
        let id = format!("{}:{subject}", trigger["kind"].as_str().unwrap());
        let answer = check(server, &id, trigger["template"].as_str().unwrap()).await;
        assert_eq!(answer.body["ok"], true, "{id}: {}", answer.text);
    }
    let names = |answer: &Answer| -> Vec<String> {
        answer.body["symbols"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let path = format!("/admin/scripts/types?trigger=record.index:{NOTES}");
    let of_records = names(&server.admin(Method::GET, &path, None).await);
    assert!(names(&all).len() > of_records.len());
    assert!(
        of_records.contains(&"record".to_owned()) && !of_records.contains(&"params".to_owned()),
        "{of_records:?}"
    );
    assert_eq!(server.admin(Method::GET, "/admin/scripts/types?trigger=nope", None).await.status, 400);
}
