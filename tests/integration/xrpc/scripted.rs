//! `GET /xrpc/{nsid}` with a script.

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, LIST, NOTES, World};
use crate::support::instance::{Answer, procedure_lexicon, query_lexicon};
use belvedere_protocol::crypto::Algorithm;

/// Binds a script to a query over the notes and calls it.
async fn call(world: &World, source: &str, query: &str) -> Answer {
    world.server.upload(query_lexicon("com.example.scripted"), Some(NOTES)).await;
    world.server.bind("com.example.scripted", source).await;
    world.server.xrpc(&format!("com.example.scripted?{query}")).await
}

crate::in_both_worlds!(
    a_script_sees_its_call,
    a_script_reads_the_index,
    the_oldest_come_first_without_a_sort,
    an_empty_table_is_an_array_where_the_output_says_so,
    more_concurrent_calls_than_instances_all_succeed,
    failures_return_an_error_and_log_the_details,
    who_manages_scripts_sees_why_one_failed,
    a_log_line_of_a_script_is_an_event,
    return_values_are_encoded_as_json,
    hostile_scripts_do_not_affect_others
);

async fn a_script_sees_its_call(world: World) {
    let source = "function handle() return { method = method, collection = collection, params = params, \
         caller = caller_did == nil, env = env.NOTHING == nil } end";
    let answer = call(&world, source, "a=1&tag=x&tag=y&flag&client_key=ignored").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(
        answer.body,
        json!({
            "method": "com.example.scripted", "collection": NOTES, "caller": true, "env": true,
            "params": { "a": "1", "tag": ["x", "y"], "flag": "" },
        })
    );
}

async fn a_script_reads_the_index(mut world: World) {
    world = world.with_notes().await;
    for n in 0..6 {
        let author = if n % 2 == 0 { ALICE } else { BOB };
        world.note(author, &format!("n{n}"), json!({ "text": format!("note {n}"), "n": n })).await;
    }
    let source = "function handle() \
        local page = db.query{ collection = collection, limit = params.limit, cursor = params.cursor, \
            filter = { field = 'n', op = '>=', value = 2 }, sort = 'n', sortDirection = 'asc' } \
        local one = db.get(page.records[1].uri) \
        return { page = page, one = one.text, all = db.count(collection), bobs = db.count(collection, params.did), \
            missing = db.get('at://did:plc:abc/com.example.note/x') == nil } end";
    let answer = call(&world, source, &format!("limit=2&did={BOB}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.body["page"]["records"][0]["n"], 2);
    assert_eq!(answer.body["page"]["records"][0]["uri"], format!("at://{ALICE}/{NOTES}/n2"));
    assert_eq!(answer.body["page"]["records"][1]["n"], 3);
    assert_eq!(
        (&answer.body["one"], &answer.body["all"], &answer.body["bobs"]),
        (&json!("note 2"), &json!(6), &json!(3))
    );
    assert_eq!(answer.body["missing"], true);
    let cursor = answer.body["page"]["cursor"].as_str().unwrap();
    let next = world.server.xrpc(&format!("com.example.scripted?limit=2&did={BOB}&cursor={cursor}")).await;
    assert_eq!(next.body["page"]["records"][0]["n"], 4);
    assert_eq!(next.body["page"]["cursor"], Value::Null);
}

async fn the_oldest_come_first_without_a_sort(mut world: World) {
    world = world.with_notes().await;
    for n in 0..4 {
        world.note(ALICE, &format!("n{n}"), json!({ "text": format!("note {n}") })).await;
    }
    let source = "function handle() \
        local out = toarray({}) \
        for _, direction in ipairs({ 'asc', 'desc' }) do \
          local cursor = nil \
          repeat \
            local page = db.query({ collection = collection, sortDirection = direction, limit = 3, cursor = cursor }) \
            for _, note in ipairs(page.records) do table.insert(out, note.text) end \
            cursor = page.cursor \
          until not cursor \
        end \
        return out end";
    let answer = call(&world, source, "").await;
    let mut texts: Vec<String> = (0..4).map(|n| format!("note {n}")).collect();
    texts.extend((0..4).rev().map(|n| format!("note {n}")));
    assert_eq!(answer.body, json!(texts), "{}", answer.text);
}

async fn an_empty_table_is_an_array_where_the_output_says_so(world: World) {
    let list = json!({ "type": "array", "items": { "type": "ref", "ref": "com.example.defs#note" } });
    let note = json!({ "type": "object", "properties": { "tags": { "type": "array", "items": { "type": "string" } } } });
    let defs = json!({ "lexicon": 1, "id": "com.example.defs", "defs": { "note": note } });
    let query = json!({ "lexicon": 1, "id": "com.example.lists", "defs": { "main": { "type": "query", "output": {
        "encoding": "application/json", "schema": { "type": "object", "properties": { "notes": list, "more": list } } } } } });
    world.server.upload(defs, None).await;
    world.server.upload(query, None).await;
    let source =
        "function handle() return { notes = {}, more = { { tags = {}, meta = {} } }, other = {} } end";
    world.server.bind("com.example.lists", source).await;
    let answer = world.server.xrpc("com.example.lists").await;
    assert_eq!(
        answer.body,
        json!({ "notes": [], "more": [{ "tags": [], "meta": {} }], "other": {} }),
        "{}",
        answer.text
    );
    // So does a script that calls the method.
    let caller = "function handle() return json.decode(xrpc.query('com.example.lists').body).notes end";
    assert_eq!(call(&world, caller, "").await.body, json!([]));
}

async fn more_concurrent_calls_than_instances_all_succeed(world: World) {
    // Each raises an error, yields to other runs, and raises again.
    let source = "function handle() for i = 1, 100 do pcall(error, { i }) end \
        for i = 1, 20 do db.count(collection) for j = 1, 5000 do end end \
        for i = 1, 100 do pcall(error, { i }) end return true end";
    assert_eq!(call(&world, source, "").await.status, 200);
    // Three times as many as one client may have at once.
    let calls = (0..96).map(|_| world.server.xrpc("com.example.scripted"));
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!((answer.status.as_u16(), &answer.body), (200, &json!(true)), "{}", answer.text);
    }
}

async fn failures_return_an_error_and_log_the_details(world: World) {
    for (source, text) in [
        ("function handle() error('secret detail') end", "script execution failed"),
        ("function handle() return nil + 1 end", "script execution failed"),
        ("function handle() return print end", "script execution failed"),
        ("function handle() return db.query{ collection = 'nope' } end", "script execution failed"),
        (
            "function handle() local t = {} while true do t[#t + 1] = ('x'):rep(1e6) .. #t end end",
            "script execution failed",
        ),
        ("function handle() while true do end end", "script exceeded execution time limit"),
        (
            "function handle() pcall(function() while true do end end) return 1 end",
            "script exceeded execution time limit",
        ),
    ] {
        let answer = call(&world, source, "q=1").await;
        assert_eq!((answer.status.as_u16(), answer.error()), (500, text), "{source}");
        assert_eq!(answer.body.as_object().unwrap().len(), 1, "nothing else is told: {}", answer.text);
    }
    let events = world.server.admin(Method::GET, "/admin/events?event_type=script.error", None).await;
    let events = events.body["events"].as_array().unwrap();
    assert_eq!(events.len(), 7);
    let first = events.last().unwrap();
    assert_eq!((&first["severity"], &first["subject"]), (&json!("error"), &json!("com.example.scripted")));
    let error = first["detail"]["error"].as_str().unwrap();
    assert!(error.contains("xrpc.query:com.example.scripted:1: secret detail"), "{error}");
    assert!(first["detail"]["script_source"].as_str().unwrap().contains("secret detail"));
    assert_eq!(first["detail"]["method"], "com.example.scripted");
    assert_eq!(first["detail"]["caller_did"], Value::Null);
}

async fn who_manages_scripts_sees_why_one_failed(world: World) {
    let (server, failing, calling) = (&world.server, "com.example.failing", "com.example.calling");
    let variable = json!({ "key": "TOKEN", "value": "secret value" });
    assert!(server.admin(Method::POST, "/admin/script-variables", Some(&variable)).await.status.is_success());
    for nsid in [failing, calling] {
        server.upload(procedure_lexicon(nsid), Some(NOTES)).await;
    }
    let source =
        "local function inner()\n  error('no answer to ' .. env.TOKEN)\nend\nfunction handle() inner() end";
    server.bind_to(&format!("xrpc.procedure:{failing}"), source).await;
    let source = format!(
        "function handle() return {{ seen = json.decode(xrpc.procedure('{failing}', {{}}).body) }} end"
    );
    server.bind_to(&format!("xrpc.procedure:{calling}"), &source).await;
    let alice = world.plc.person(ALICE, Algorithm::Es256k);
    let call = async |nsid| server.procedure(nsid, &alice.token(&server.did(), json!({})), &json!({})).await;
    let user = server.admin(Method::POST, "/admin/users", Some(&json!({ "did": ALICE }))).await;
    let short = json!({ "error": "script execution failed" });
    let answer = call(failing).await;
    assert_eq!((answer.status.as_u16(), &answer.body), (500, &short), "a user without the permission");

    let path = format!("/admin/users/{}/permissions", user.body["id"].as_str().unwrap());
    let granted = server.admin(Method::PATCH, &path, Some(&json!({ "grant": ["scripts:manage"] }))).await;
    assert_eq!(granted.status, 200, "{}", granted.text);
    let answer = call(failing).await;
    assert_eq!((answer.status.as_u16(), answer.error()), (500, "script execution failed"));
    let message = answer.body["message"].as_str().unwrap();
    assert!(message.starts_with("xrpc.procedure:com.example.failing:2: no answer to "), "{message}");
    assert!(message.contains("in upvalue 'inner'") && message.contains("traceback"), "{message}");
    assert!(!message.contains("secret value"), "{message}");
    // A script could pass it on to anyone.
    assert_eq!(call(calling).await.body, json!({ "seen": short }));
}

async fn a_log_line_of_a_script_is_an_event(world: World) {
    let answer = call(&world, "function handle() log('hello ' .. params.q) return true end", "q=you").await;
    assert_eq!(answer.body, json!(true));
    let events = world.server.admin(Method::GET, "/admin/events?event_type=script.log", None).await;
    let event = &events.body["events"][0];
    assert_eq!(event["subject"], "xrpc.query:com.example.scripted");
    assert_eq!(
        event["detail"],
        json!({ "trigger": "xrpc.query:com.example.scripted", "message": "hello you" })
    );
}

async fn return_values_are_encoded_as_json(world: World) {
    for (expression, body) in [
        ("nil", json!(null)),
        ("true", json!(true)),
        ("'text'", json!("text")),
        ("{}", json!({})),
        ("toarray({})", json!([])),
        ("{ 1, 2, 3 }", json!([1, 2, 3])),
        (
            "{ a = json.null, b = 10 / 2, c = 0.5, d = 9007199254740993 }",
            json!({ "a": null, "b": 5, "c": 0.5, "d": 9_007_199_254_740_993_i64 }),
        ),
    ] {
        let answer = call(&world, &format!("function handle() return {expression} end"), "").await;
        assert_eq!((answer.status.as_u16(), answer.body), (200, body), "{expression}");
    }
}

async fn hostile_scripts_do_not_affect_others(world: World) {
    let server = &world.server;
    server.upload(query_lexicon(LIST), None).await;
    server.bind(LIST, "function handle() return { ok = true } end").await;
    server.upload(query_lexicon("com.example.loop"), None).await;
    server.bind("com.example.loop", "function handle() while true do local s = ('a'):rep(10) end end").await;
    let attack = async || {
        for _ in 0..10 {
            assert_eq!(server.xrpc("com.example.loop").await.status, 500);
        }
    };
    let use_it = async || {
        for _ in 0..50 {
            assert_eq!(server.xrpc(LIST).await.body, json!({ "ok": true }));
        }
    };
    tokio::join!(attack(), attack(), attack(), use_it());
    assert_eq!(server.request(Method::GET, "/health", &[], None).await.text, "ok");
}
