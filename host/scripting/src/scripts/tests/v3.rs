//! v3 scripts: `handle(input, ctx)` and its modules.

use std::sync::Arc;

use super::{NOW, Stage, TRIGGER, account};
use crate::scripts::annotations;
use crate::scripts::contract::globals::removed;
use crate::scripts::contract::modules::MODULES;
use crate::scripts::{FailureKind, Invocation, ScriptFailure, ScriptSet, TriggerEvent};
use belvedere_protocol::trigger::Trigger;
use serde_json::{Value, json};

const NOTE: &str = "at://did:plc:bobbobbobbobbobbobbobbob/com.example.note/3jui7kd54zh2y";

async fn run(
    stage: &Stage,
    id: &str,
    source: &str,
    invocation: Invocation<'_>,
) -> Result<Value, ScriptFailure> {
    let script = stage.engine.compile(Trigger::parse(id).unwrap(), source).await;
    let outcome = stage.engine.run(&script, invocation, &stage.services).await?;
    Ok(serde_json::from_slice(&outcome.body).unwrap())
}

/// The value of an expression in `handle(input, ctx)`, where `require` has the short name `r`.
async fn eval(stage: &Stage, expression: &str) -> Result<Value, ScriptFailure> {
    let source = format!("local r = require function handle(input, ctx) return {expression} end");
    stage.run(&source).await
}

#[tokio::test]
async fn each_kind_of_trigger_has_its_input_and_ctx() {
    let stage = Stage::set().await;
    let caller = account("did:plc:callercallercallercallerc");
    let source = "function handle(input, ctx) return { input = input, ctx = ctx } end";
    let params = [("author".to_owned(), "a\u{1F600}\"".to_owned()), ("n".to_owned(), "1".to_owned())];
    let query = Invocation {
        method: Some("com.example.get"),
        collection: Some("com.example.note"),
        caller: Some(&caller),
        params: Some(&params),
        ..Invocation::default()
    };
    let got = run(&stage, TRIGGER, source, query).await.unwrap();
    let ctx = json!({
        "trigger": TRIGGER, "env": {}, "has_pds_auth": false, "method": "com.example.get",
        "collection": "com.example.note", "caller_did": "did:plc:callercallercallercallerc",
    });
    assert_eq!(got, json!({ "input": { "author": "a\u{1F600}\"", "n": "1" }, "ctx": ctx }));

    let id = "xrpc.procedure:com.example.do";
    let procedure = Invocation { input: Some(b"{\"text\":null}"), params: Some(&params[1..]), ..query };
    let got = run(&stage, id, source, procedure).await.unwrap();
    assert_eq!(got["input"], json!({ "text": null }));
    assert_eq!((&got["ctx"]["params"], &got["ctx"]["trigger"]), (&json!({ "n": "1" }), &json!(id)));
    let empty = run(&stage, id, source, Invocation { input: None, params: None, ..query }).await.unwrap();
    assert_eq!((empty.get("input"), empty["ctx"].get("params")), (None, None));

    let did = "did:plc:bobbobbobbobbobbobbobbob";
    let event = TriggerEvent::Record {
        action: "create",
        uri: NOTE,
        did,
        rkey: "3jui7kd54zh2y",
        record: Some(b"{\"n\":1}"),
    };
    let event =
        Invocation { collection: Some("com.example.note"), event: Some(event), ..Invocation::default() };
    let got = run(&stage, "record.index:com.example.note", source, event).await.unwrap();
    let input = json!({
        "action": "create", "uri": NOTE, "did": did, "collection": "com.example.note", "rkey": "3jui7kd54zh2y", "record": { "n": 1 },
    });
    assert_eq!(got["input"], input);
    assert_eq!(got["ctx"]["caller_did"], did);

    let event = TriggerEvent::Label {
        src: did,
        uri: NOTE,
        val: "spam",
        neg: false,
        cts: "2026-01-01T00:00:00Z",
        exp: None,
    };
    let event = Invocation { event: Some(event), ..Invocation::default() };
    let got = run(&stage, "labeler.apply:com.example.note", source, event).await.unwrap();
    let label =
        json!({ "src": did, "uri": NOTE, "val": "spam", "neg": false, "cts": "2026-01-01T00:00:00Z" });
    assert_eq!((&got["input"], got["ctx"].get("caller_did")), (&label, None));

    let job = Invocation { caller: Some(&caller), job: Some(("j1", b"{\"of\":7}")), ..Invocation::default() };
    let source = "function handle(input, ctx)
        return { of = input.of, id = ctx.job.id, input = ctx.job.input, stop = type(ctx.job.should_stop), by = ctx.caller_did }
    end";
    let got = run(&stage, "job.run:count", source, job).await.unwrap();
    let expected =
        json!({ "of": 7, "id": "j1", "stop": "function", "by": "did:plc:callercallercallercallerc" });
    assert_eq!(got, expected);
}

#[tokio::test]
async fn the_globals_of_v2_are_not_there_and_v2_is_as_before() {
    let stage = Stage::set().await;
    for (name, _) in removed() {
        let source = format!(
            "local at_load = _G['{name}'] function handle(input, ctx) return at_load == nil and _G['{name}'] == nil end"
        );
        assert_eq!(stage.run(&source).await.unwrap(), true, "{name}");
    }
    assert_eq!(
        stage.run("function handle(a) return { a == nil, type(db.query), params == nil } end").await.unwrap(),
        json!([true, "function", true])
    );
    for name in MODULES {
        let kind = eval(&stage, &format!("type(r('{name}'))")).await.unwrap();
        assert_eq!(kind, "table", "{name}");
        assert_eq!(stage.eval(&format!("require('{name}') == require('{name}')")).await, true, "{name}");
    }
}

/// A v3 script has Lua's own globals, `require` and `parallel`, and nothing else.
#[tokio::test]
async fn only_require_and_parallel_are_added_to_the_globals_of_lua() {
    let stage = Stage::set().await;
    let source = "function handle(input, ctx)
        local names = {}
        for name in pairs(_G) do names[#names + 1] = name end
        table.sort(names)
        return table.concat(names, ' ')
    end";
    let names = "_G _VERSION assert coroutine error getmetatable handle ipairs math next os pairs parallel pcall print rawequal rawget rawlen \
                 rawset require select setmetatable string table tonumber tostring type utf8 warn xpcall";
    assert_eq!(stage.run(source).await.unwrap(), names);
}

/// The annotations for editors name the functions that the modules have.
#[tokio::test]
async fn the_annotations_match_the_modules() {
    let stage = Stage::set().await;
    let annotated = annotations::modules();
    let names: Vec<&str> = annotated.iter().map(|(name, _)| *name).collect();
    assert_eq!(names[0], "belvedere.v3");
    for module in MODULES {
        let text = annotated.iter().find(|(name, _)| *name == module).map(|(_, text)| text);
        let text = text.unwrap_or_else(|| panic!("guest-lua/v3.d.lua lacks {module}"));
        let Some(table) = text.lines().last().and_then(|line| line.strip_prefix("return ")) else {
            panic!("{module}: {text}")
        };
        let mut declared: Vec<String> = text
            .lines()
            .filter_map(|line| {
                let name = line.strip_prefix("function ").and_then(|rest| rest.split('(').next())?;
                name.strip_prefix(table)?.strip_prefix('.').map(str::to_owned)
            })
            .collect();
        declared.sort();
        // Those of v2 are declared there, and what raises an error is not offered.
        if declared.is_empty() {
            continue;
        }
        let source = format!(
            "function handle(input, ctx)
                local names = {{}}
                for name, value in pairs(require('{module}')) do
                    if type(value) == 'function' then names[#names + 1] = name end
                end
                table.sort(names)
                return names
            end"
        );
        let mut names: Vec<String> = serde_json::from_value(stage.run(&source).await.unwrap()).unwrap();
        names.retain(|name| {
            module != "happyview.spaces" || !["accept_invite", "create", "info"].contains(&name.as_str())
        });
        assert_eq!(declared, names, "{module}");
    }
}

#[tokio::test]
async fn saving_names_what_v3_has_instead() {
    let stage = Stage::set().await;
    let check = async |source: &str| {
        let checked = stage
            .engine
            .check(Trigger::parse(TRIGGER).unwrap(), source, &Arc::new(ScriptSet::default()))
            .await;
        checked.map(drop)
    };
    check("local db = require('happyview.db') local all = db.records('com.example.note'):limit(5)\nfunction handle(input, ctx) return all:run() end").await.unwrap();
    for (source, line, message) in [
        (
            "\nfunction handle(input, ctx) return db.get(input.uri) end",
            2,
            "use require(\"happyview.db\"), .sql and .backlinks",
        ),
        (
            "function handle(input, ctx)\n return { caller_did } end",
            2,
            "caller_did is no global of a v3 script: use ctx.caller_did",
        ),
        ("-- contract: v3\nfunction handle() return params end", 2, "ctx.params in a procedure"),
        (
            "require('happyview.nope') function handle() end",
            1,
            "there is no module \"happyview.nope\"; the modules are internal.logging",
        ),
    ] {
        let failure = check(source).await.unwrap_err();
        assert_eq!(failure.line, Some(line), "{failure}");
        assert!(failure.message.contains(message), "{failure}");
    }
}

#[tokio::test]
async fn time_tids_json_and_logging() {
    let stage = Stage::set().await;
    for (expression, value) in [
        ("r('internal.time').now()", json!(NOW.0 / 1000)),
        ("r('internal.time').to_iso8601(1700000000123)", json!("2023-11-14T22:13:20.123Z")),
        ("r('internal.time').to_iso8601(1700000000123.9)", json!("2023-11-14T22:13:20.123Z")),
        ("r('internal.time').from_iso8601('2023-11-14T22:13:20.123Z')", json!(1_700_000_000_123_i64)),
        (
            "r('internal.tids').from_tid(r('internal.tids').to_tid(1700000000123))",
            json!(1_700_000_000_123_i64),
        ),
        ("r('internal.time').from_iso8601('yesterday') == nil", json!(true)),
        ("#r('internal.tids').create()", json!(13)),
        ("r('internal.json').to_array({})", json!([])),
        ("r('internal.json').decode('[1,null]')", json!([1, null])),
    ] {
        assert_eq!(eval(&stage, expression).await.unwrap(), value, "{expression}");
    }
    eval(&stage, "r('internal.logging').info('hi', { n = 1 }), r('internal.logging').error('no')")
        .await
        .unwrap();
    let lines: Vec<String> = stage.lines.0.lock().unwrap().iter().map(|line| line.message.clone()).collect();
    assert_eq!(lines, ["hi {\"n\":1}", "error: no"]);
    for expression in [
        "r('internal.time').to_iso8601(-1)",
        "r('internal.time').to_iso8601(0/0)",
        "r('internal.time').to_iso8601({})",
        "r('internal.time').from_iso8601({})",
        "r('internal.tids').to_tid('x')",
        "r('internal.tids').from_tid('\\0')",
        "r('internal.logging').info({})",
        "r('happyview.' .. 'nope')",
    ] {
        let failure = eval(&stage, expression).await.unwrap_err();
        assert_eq!((failure.kind, failure.line), (FailureKind::Runtime, Some(1)), "{expression}: {failure}");
    }
}

#[tokio::test]
async fn records_are_read_in_envelopes() {
    let stage = Stage::set().await;
    stage.put(&[(NOTE, r#"{"$type":"com.example.note","text":"hi"}"#)]);
    let source = "local db = require('happyview.db')
        function handle(input, ctx)
            local chain = db.records('com.example.note'):where('text', 'like', 'h%'):where('n', '=', nil)
                :sort('createdAt', 'asc'):limit(input.limit):cursor(nil):did(ctx.caller_did)
            local page = chain:run()
            return { first = page.records[1], same = chain:first().uri == page.records[1].uri, count = chain:count(),
                got = db.get(page.records[1].uri).rkey, none = db.get('at://did:plc:x/a.b.c/d') == nil, backend = db.backend(),
                found = #db.search('com.example.note', 'text', 'hi', 5) }
        end";
    let got = stage.run(source).await.unwrap();
    let first = &got["first"];
    assert_eq!(first["record"], json!({ "$type": "com.example.note", "text": "hi" }));
    assert_eq!(first["uri"], NOTE);
    assert_eq!((&first["collection"], &first["rkey"]), (&json!("com.example.note"), &json!("3jui7kd54zh2y")));
    assert_eq!(first["did"], "did:plc:bobbobbobbobbobbobbobbob");
    assert!(first["cid"].is_string() && first["indexed_at"].is_string(), "{first}");
    let rest = json!({ "same": true, "count": 1, "got": "3jui7kd54zh2y", "none": true, "backend": "sqlite", "found": 1 });
    for (name, value) in rest.as_object().unwrap() {
        assert_eq!(&got[name], value, "{name}");
    }
    let query = stage.index.queries.lock().unwrap().remove(0);
    assert_eq!(query.limit, belvedere_storage::query::PageSize::RECORDS.default);
    let links = "r('happyview.backlinks').to('at://did:plc:x/a.b.c/d'):collection('com.example.note'):run().records[1].uri";
    assert_eq!(eval(&stage, links).await.unwrap(), NOTE);
    assert_eq!(eval(&stage, "r('happyview.sql').raw('SELECT 1', { 5 })").await.unwrap(), json!([5]));
}

#[tokio::test]
async fn errors_have_the_names_and_codes_of_v3() {
    let stage = Stage::set().await;
    for (call, code, message) in [
        (
            "r('happyview.db').get(1)",
            "BAD_INPUT",
            "get:1: happyview-db.get: uri: string expected, got number",
        ),
        ("r('happyview.db').records()", "BAD_INPUT", "happyview-db.records: collection is required"),
        (
            "r('happyview.db').records('com.example.note'):where('a', 'is', 1)",
            "BAD_INPUT",
            "op must be one of",
        ),
        (
            "r('happyview.db').records('com.example.note'):limit('x'):run()",
            "BAD_INPUT",
            "happyview-db.run: limit: integer expected",
        ),
        ("r('happyview.db').records('com.example.down'):run()", "UNAVAILABLE", ""),
        (
            "r('happyview.backlinks').to('at://did:plc:x/a.b.c/d'):run()",
            "BAD_INPUT",
            "collection is required",
        ),
        ("r('happyview.sql').raw('')", "FORBIDDEN", "no"),
        ("r('happyview.record').put('x', {})", "BAD_INPUT", "uri: not the AT URI of a record"),
        (
            "r('happyview.record').create('com.example.note', 1)",
            "BAD_INPUT",
            "record: table expected, got number",
        ),
        ("r('happyview.record').upload_blob(7, 'image/png')", "BAD_INPUT", "bytes: string expected"),
        ("r('happyview.record').upload_blob({ 256 }, 'image/png')", "BAD_INPUT", "numbers from 0 to 255"),
        (
            "r('happyview.record').put('at://did:plc:x/a.b.c/d', {}, { swap_cid = 1 })",
            "BAD_INPUT",
            "swap_cid: string expected",
        ),
        (
            "r('happyview.spaces').get('x'):add_member { did = 'did:plc:x' }",
            "FORBIDDEN",
            "is not available on this server",
        ),
        ("r('happyview.jobs').get()", "BAD_INPUT", "happyview-jobs.get: id: string expected"),
        ("r('happyview.jobs').list_any { limit = 0 }", "BAD_INPUT", "limit: positive integer expected"),
        ("r('happyview.jobs').list_any { state = {} }", "BAD_INPUT", "state"),
        ("r('happyview.sql').from('a b')", "BAD_INPUT", "table: a name of letters, digits and _ expected"),
        ("r('happyview.sql').from('a'):where('b;', '=', 1)", "BAD_INPUT", "field: a name of letters"),
        ("r('happyview.sql').from('a'):where('b', 'is', 1)", "BAD_INPUT", "op must be one of"),
        (
            "r('happyview.sql').from('a'):where('b', '=', {})",
            "BAD_INPUT",
            "value: a text, a number or a boolean",
        ),
        ("r('happyview.sql').from('a'):sort('b', 'up')", "BAD_INPUT", "direction must be asc or desc"),
        ("r('happyview.sql').from('a'):limit(0)", "BAD_INPUT", "limit: positive integer expected"),
        ("r('happyview.blobs').put('x', 'image/png')", "FORBIDDEN", "it stores no blobs"),
        ("r('happyview.http').get()", "BAD_INPUT", "happyview-http.get: url: string expected, got nil"),
        ("r('happyview.xrpc').query(1)", "BAD_INPUT", "happyview-xrpc.query: nsid: string expected"),
        (
            "r('happyview.spaces').get('x').is_member('did:plc:x')",
            "BAD_INPUT",
            "a space of happyview-spaces.get expected",
        ),
    ] {
        let source = format!(
            "local r = require function handle(input, ctx) local ok, e = pcall(function() return {call} end) return {{ ok = ok, code = e.code, message = e.message }} end"
        );
        let got = stage.run(&source).await.unwrap_or_else(|failure| panic!("{call}: {failure}"));
        assert_eq!((&got["ok"], &got["code"]), (&json!(false), &json!(code)), "{call}: {got}");
        assert!(got["message"].as_str().unwrap().contains(message), "{call}: {got}");
    }
    let failure = eval(&stage, "r('happyview.db').records('com.example.down'):run()").await.unwrap_err();
    assert!(failure.is_retryable(), "{failure}");
}

#[tokio::test]
async fn an_auth_error_is_a_401_in_v3_only() {
    let stage = Stage::set().await;
    let failure = stage.run("function handle(input, ctx) error('AUTH_ERROR: log in') end").await.unwrap_err();
    let answer = failure.answer.as_deref().unwrap().to_caller();
    assert_eq!(answer.status.as_u16(), 401);
    assert_eq!(serde_json::from_slice::<Value>(&answer.body).unwrap(), json!({ "error": "log in" }));
    assert!(
        stage.run("function handle() error('AUTH_ERROR: log in') end").await.unwrap_err().answer.is_none()
    );
    let failure = stage.run("function handle(input, ctx) error('AUTH_ERROR:\\0') end").await.unwrap_err();
    assert!(failure.answer.is_none() && failure.message.contains("is no answer"), "{failure}");
}

#[tokio::test]
async fn limits_hold_in_modules() {
    let stage = Stage::set().await;
    let loops = "local db = require('happyview.db') function handle(input, ctx) while true do pcall(db.get, 1) end end";
    assert_eq!(stage.run(loops).await.unwrap_err().kind, FailureKind::Limit);
    let within = "function handle(input, ctx) for _ = 1, 240000 do local x = 1 end for _ = 1, 240000 do local x = 1 end return 1 end";
    assert_eq!(stage.run(within).await.unwrap(), 1);
    let beyond = "function handle(input, ctx) for _ = 1, 1000000 do local x = 1 end return 1 end";
    assert_eq!(stage.run(beyond).await.unwrap_err().kind, FailureKind::Limit);
}
