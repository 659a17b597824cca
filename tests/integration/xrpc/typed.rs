//! Methods take and return what their lexicons declare, whether a script or the server answers.

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, LIST, NOTES, World};
use crate::support::instance::{Answer, query_lexicon};

const METHOD: &str = "com.example.typed";

fn lexicon(nsid: &str) -> Value {
    json!({ "lexicon": 1, "id": nsid, "defs": { "main": { "type": "query",
        "parameters": { "type": "params", "required": ["q"], "properties": {
            "q": { "type": "string", "maxLength": 10 },
            "limit": { "type": "integer", "minimum": 1, "maximum": 5, "default": 2 },
            "deep": { "type": "boolean" },
            "tags": { "type": "array", "items": { "type": "string" } } } },
        "output": { "encoding": "application/json", "schema": { "type": "object", "required": ["n"],
            "properties": { "n": { "type": "integer" } } } } } } })
}

/// Binds a script to the query and calls it.
async fn call(world: &World, source: &str, query: &str) -> Answer {
    world.server.upload(lexicon(METHOD), Some(NOTES)).await;
    world.server.bind(METHOD, source).await;
    world.server.xrpc(&format!("{METHOD}?{query}")).await
}

async fn invalid_outputs(world: &World) -> Vec<Value> {
    let path = "/admin/events?event_type=script.output_invalid";
    let answer = world.server.admin(Method::GET, path, None).await;
    answer.body["events"].as_array().unwrap().clone()
}

crate::in_both_worlds!(
    a_script_gets_values_of_the_declared_types,
    scripts_written_for_text_keep_working,
    what_does_not_match_is_refused_by_name,
    a_built_in_list_keeps_to_its_lexicon,
    an_output_that_does_not_match_is_reported_and_sent,
    a_dry_run_reads_and_checks_as_a_call_does
);

async fn a_script_gets_values_of_the_declared_types(world: World) {
    let source = "function handle() return { n = params.limit, params = params, \
        math = math.type(params.limit), deep = params.deep == true } end";
    let answer = call(&world, source, "q=7&deep=1&tags=a&other=1").await;
    let params = json!({ "q": "7", "limit": 2, "deep": true, "tags": ["a"], "other": "1" });
    assert_eq!(answer.body, json!({ "n": 2, "params": params, "math": "integer", "deep": true }));
    let answer = call(&world, source, "q=&limit=5&deep=false").await;
    assert_eq!(answer.body["params"], json!({ "q": "", "limit": 5, "deep": false }));
}

async fn scripts_written_for_text_keep_working(world: World) {
    // Idioms that hold for text and for values.
    let source = "function handle() \
        local limit = tonumber(params.limit) or 20 \
        if limit > 100 then limit = 100 end \
        local page = db.query{ collection = collection, limit = params.limit, cursor = params.cursor } \
        return { n = limit, text = 'limit ' .. params.limit, page = page.records, \
            q = string.lower(params.q or ''), deep = params.deep and 1 or 0 } end";
    let answer = call(&world, source, "q=ABC&limit=3").await;
    assert_eq!(answer.body, json!({ "n": 3, "text": "limit 3", "page": [], "q": "abc", "deep": 0 }));

    let source = "params_raw = true\nfunction handle() return { n = 1, params = params } end";
    let answer = call(&world, source, "q=7&deep=1&tags=a&limit=3").await;
    assert_eq!(answer.body["params"], json!({ "q": "7", "deep": "1", "tags": "a", "limit": "3" }));
    let answer = call(&world, source, "q=7").await;
    assert_eq!(answer.body["params"], json!({ "q": "7" }));
    assert_eq!(call(&world, source, "q=7&limit=6").await.status, 400);
}

async fn what_does_not_match_is_refused_by_name(world: World) {
    let source = "function handle() return { n = 1 } end";
    for (query, message) in [
        ("limit=1", "at params.q: required field missing"),
        ("q=a&limit=6", "at params.limit: integer too large: max 5, got 6"),
        ("q=a&limit=two", "at params.limit: expected integer, got string"),
        ("q=a&limit=1&limit=2", "at params.limit: expected integer, got array"),
        ("q=a&deep=maybe", "at params.deep: expected boolean, got string"),
        ("q=longer%20than%20ten", "at params.q: string too long: max 10 bytes, got 15"),
    ] {
        let answer = call(&world, source, query).await;
        assert_eq!((answer.status.as_u16(), answer.error()), (400, "InvalidRequest"), "{query}");
        assert_eq!(answer.body["message"], message, "{query}");
    }
}

async fn a_built_in_list_keeps_to_its_lexicon(world: World) {
    let mut world = world.with_notes().await;
    for n in 0..7 {
        world.note(ALICE, &format!("n{n}"), json!({ "text": format!("note {n}") })).await;
    }
    let server = &world.server;
    server.upload(lexicon(LIST), Some(NOTES)).await;
    let length = async |query: &str| {
        let answer = server.xrpc(&format!("{LIST}?{query}")).await;
        answer.body["records"].as_array().map(Vec::len).ok_or(answer.status.as_u16())
    };
    assert_eq!(length("q=a").await, Ok(2));
    assert_eq!(length("q=a&limit=5").await, Ok(5));
    assert_eq!(length("q=a&limit=6").await, Err(400));
    assert_eq!(length("").await, Err(400));
    server.upload(query_lexicon(LIST), Some(NOTES)).await;
    assert_eq!(length("").await, Ok(7));
}

async fn an_output_that_does_not_match_is_reported_and_sent(world: World) {
    let source = "function handle() return { n = params.q } end";
    for _ in 0..3 {
        let answer = call(&world, "function handle() return { n = 1 } end", "q=1").await;
        assert_eq!((answer.status.as_u16(), answer.body), (200, json!({ "n": 1 })));
    }
    assert_eq!(invalid_outputs(&world).await, Vec::<Value>::new());
    let answer = call(&world, source, "q=one").await;
    assert_eq!((answer.status.as_u16(), answer.body), (200, json!({ "n": "one" })));
    for _ in 0..50 {
        assert_eq!(world.server.xrpc(&format!("{METHOD}?q=two")).await.status, 200);
    }
    let events = invalid_outputs(&world).await;
    assert_eq!(events.len(), 1);
    assert_eq!((&events[0]["severity"], &events[0]["subject"]), (&json!("warn"), &json!(METHOD)));
    assert_eq!(
        events[0]["detail"],
        json!({ "error": "at output.n: expected integer, got string", "method": METHOD })
    );
}

async fn a_dry_run_reads_and_checks_as_a_call_does(world: World) {
    let server = &world.server;
    server.upload(lexicon(METHOD), Some(NOTES)).await;
    let run = async |source: &str, params: Value| {
        let body = json!({ "id": format!("xrpc.query:{METHOD}"), "body": source,
            "event": { "type": "request", "params": params } });
        let answer = server.admin(Method::POST, "/admin/scripts/dry-run", Some(&body)).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.body["result"].clone()
    };
    let source = "function handle() return { n = params.limit } end";
    let result = run(source, json!({ "q": "a" })).await;
    let expected = json!({ "type": "response", "status": 200, "body": { "n": 2 }, "invalid_reason": null });
    assert_eq!(result, expected);
    let result = run("function handle() return { m = 1 } end", json!({ "q": "a" })).await;
    assert_eq!(result["invalid_reason"], "at output.n: required field missing");
    let result = run(source, json!({})).await;
    assert_eq!((&result["status"], &result["body"]["error"]), (&json!(400), &json!("InvalidRequest")));
    assert_eq!(result["invalid_reason"], Value::Null);
}
