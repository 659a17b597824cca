//! Tests of the script API of `lua-runtime.md` §3, §9 and §11.

use serde_json::json;

use super::{FailureKind, Invocation, NOW, Stage, TRIGGER, account};
use crate::scripts::services::LogLevel;
use crate::scripts::{ReturnKind, Variables};
use belvedere_protocol::atproto::Tid;
use belvedere_protocol::trigger::Trigger;

#[tokio::test]
async fn globals_come_from_the_invocation() {
    let mut stage = Stage::set().await;
    stage.services = stage.services.with_variables(Variables::new([("TOKEN", "s3cret")]));
    let params =
        [("limit", "5"), ("tag", "a"), ("tag", "b")].map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec();
    let caller = account("did:plc:abc");
    let invocation = Invocation {
        method: Some("com.example.get"),
        collection: Some("com.example.note"),
        caller: Some(&caller),
        params: Some(&params),
        input: Some(br#"{"text":"hi","none":null}"#),
        ..Invocation::default()
    };
    let source = "function handle()
        return { method, collection, caller_did, params.limit, params.tag[2], input.text, env.TOKEN,
                 env.MISSING == nil, input.none == json.null, input.absent == nil, type(params.limit) }
    end";
    let outcome = stage.run_with(source, invocation).await.unwrap();
    assert_eq!(outcome.shape, ReturnKind::Table);
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&outcome.body).unwrap(),
        json!([
            "com.example.get",
            "com.example.note",
            "did:plc:abc",
            "5",
            "b",
            "hi",
            "s3cret",
            true,
            true,
            true,
            "string"
        ])
    );
    assert_eq!(
        stage.eval("{ method == nil, collection == nil, caller_did == nil, type(env) }").await,
        json!([true, true, true, "table"])
    );
}

#[tokio::test]
async fn shapes_tell_nothing_tables_and_the_rest_apart() {
    let stage = Stage::set().await;
    for (body, shape, text) in [
        ("", ReturnKind::Nothing, "null"),
        ("return nil", ReturnKind::Nothing, "null"),
        ("return {}", ReturnKind::Table, "{}"),
        ("return toarray({})", ReturnKind::Table, "[]"),
        ("return true", ReturnKind::Other, "true"),
        ("return json.null", ReturnKind::Other, "null"),
        ("return 'x'", ReturnKind::Other, "\"x\""),
    ] {
        let source = format!("function handle() {body} end");
        let outcome = stage.run_with(&source, Invocation::default()).await.unwrap();
        assert_eq!((outcome.shape, &*outcome.body), (shape, text.as_bytes()), "{body}");
    }
}

#[tokio::test]
async fn failures_name_chunk_and_line() {
    let stage = Stage::set().await;
    for (source, kind, message, line) in [
        (
            "function handle()\n  return 1 +\nend",
            FailureKind::Syntax,
            "unexpected symbol near 'end'",
            Some(3),
        ),
        ("x = 1", FailureKind::MissingHandle, "defines no function handle()", None),
        ("handle = {}", FailureKind::MissingHandle, "defines no function handle()", None),
        ("local x = nil\nx.y = 1", FailureKind::Runtime, "attempt to index a nil value", Some(2)),
        ("function handle()\n\n error('broken') end", FailureKind::Runtime, ":3: broken", Some(3)),
        ("function handle() error('bare', 0) end", FailureKind::Runtime, "bare", Some(1)),
        ("function handle() error({code = 1}) end", FailureKind::Runtime, r#"{"code":1}"#, Some(1)),
        (
            "function handle() error(setmetatable({}, {__tostring = function() return 'mine' end})) end",
            FailureKind::Runtime,
            "mine",
            Some(1),
        ),
        ("function handle()\n db.query{}\n end", FailureKind::Runtime, ":2: db.query: collection", Some(2)),
        (
            "function handle()\n return print end",
            FailureKind::Runtime,
            "result: a function can't be JSON",
            Some(1),
        ),
    ] {
        let failure = stage.run(source).await.unwrap_err();
        assert_eq!(failure.kind, kind, "{source}: {failure:?}");
        assert!(failure.message.contains(message), "{source}: {failure:?}");
        assert_eq!(failure.line, line, "{source}: {failure:?}");
        if message.starts_with(':') || kind == FailureKind::Syntax {
            assert!(failure.message.starts_with(TRIGGER), "{source}: {failure:?}");
        }
    }
    let long = Trigger::parse(&format!("xrpc.query:com.{}.get", "x".repeat(300))).unwrap();
    let script = stage.engine.compile(long.clone(), "function handle() error('x') end").await;
    let failure = stage.engine.run(&script, Invocation::default(), &stage.services).await.unwrap_err();
    assert_eq!(failure.message, format!("{long}:1: x"));
    let failure = stage.run("local function deep() error('x') end function handle() deep() end").await;
    assert!(failure.unwrap_err().traceback.unwrap().contains("in upvalue 'deep'"));
}

#[tokio::test]
async fn host_calls_work_everywhere_in_a_script() {
    let stage = Stage::set().await;
    stage.put(&[("at://did:plc:a/a.b.c/1", "{}")]);
    let seen = stage
        .run(
            "local at_load = #db.query{ collection = 'a.b.c' }.records
             function handle()
               local t = { 3, 1, 2 }
               table.sort(t, function(a, b) db.query{ collection = 'a.b.c' } return a < b end)
               local s = ('x'):gsub('x', function() return tostring(db.count('a.b.c')) end)
               local c = coroutine.wrap(function() coroutine.yield(db.count('a.b.c')) end)
               local m = setmetatable({}, { __index = function() return db.count('a.b.c') end })
               return { at_load, t, s, c(), m.x, select(2, pcall(db.count, 'a.b.c')) }
             end",
        )
        .await
        .unwrap();
    assert_eq!(seen, json!([1, [1, 2, 3], "1", 1, 1, 1]));
}

#[tokio::test]
async fn log_lines_carry_level_trigger_and_caller() {
    let stage = Stage::set().await;
    let caller = account("did:plc:abc");
    let invocation = Invocation { caller: Some(&caller), ..Invocation::default() };
    stage
        .run_with(
            "function handle() log('one') log(2) print('a', nil, 1) warn('w', 'x') log('\\xff') \
             log(('x'):rep(5000)) end",
            invocation,
        )
        .await
        .unwrap();
    let lines = stage.lines.0.lock().unwrap();
    let seen: Vec<_> = lines.iter().map(|l| (l.level, l.message.as_str())).collect();
    let long = format!("{}…", "x".repeat(4096));
    assert_eq!(
        seen,
        [
            (LogLevel::Info, "one"),
            (LogLevel::Info, "2"),
            (LogLevel::Debug, "a\tnil\t1"),
            (LogLevel::Warn, "wx"),
            (LogLevel::Info, "\u{fffd}"),
            (LogLevel::Info, &long),
        ]
    );
    assert_eq!(
        (&*lines[0].trigger, lines[0].caller_did.as_deref(), lines[0].at),
        (TRIGGER, Some("did:plc:abc"), NOW)
    );
}

#[tokio::test]
async fn times_and_record_keys() {
    let stage = Stage::set().await;
    assert_eq!(stage.eval("now()").await, json!("2023-11-14T22:13:20.123456Z"));
    assert_eq!(stage.eval("os.time()").await, json!(1_700_000_000));
    assert_eq!(stage.eval("os.date('!%Y-%m-%d %H:%M:%S', 0)").await, json!("1970-01-01 00:00:00"));
    assert_eq!(stage.eval("os.date('*t').hour").await, json!(22));
    assert_eq!(
        stage.eval("os.time{ year = 2024, month = 2, day = 30, hour = 0 }").await,
        json!(1_709_251_200)
    );
    assert_eq!(stage.eval("os.clock()").await, json!(0));
    let keys = stage.eval("{ TID(), TID(), TID() }").await;
    let keys: Vec<&str> = keys.as_array().unwrap().iter().map(|k| k.as_str().unwrap()).collect();
    assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
    assert!(keys.iter().all(|k| Tid::try_from(*k).is_ok()), "{keys:?}");
}

#[tokio::test]
async fn record_keys_convert() {
    let stage = Stage::set().await;
    for (expression, expected) in [
        (
            "TID.toUnixMicroseconds(TID.fromUnixMicroseconds(1700000000123456))",
            json!(1_700_000_000_123_456_i64),
        ),
        (
            "TID.toISO8601(TID.fromISO8601('2023-11-14T23:13:20.1234567+01:00'))",
            json!("2023-11-14T22:13:20.123456Z"),
        ),
        ("TID.toISO8601(TID.fromISO8601('1970-01-01T00:00:00Z'))", json!("1970-01-01T00:00:00.000000Z")),
        ("TID.fromNumber(TID.toNumber('3jzfcijpj2z2a'))", json!("3jzfcijpj2z2a")),
        ("TID.fromNumber(0)", json!("2222222222222")),
    ] {
        assert_eq!(stage.eval(expression).await, expected, "{expression}");
    }
    for (expression, message) in [
        ("TID.toNumber('short')", "invalid TID"),
        ("TID.toNumber('zzzzzzzzzzzzz')", "invalid TID"),
        ("TID.toNumber('3jzfcijpj2z21')", "invalid TID"),
        ("TID.fromISO8601('yesterday')", "invalid ISO 8601"),
        ("TID.fromISO8601('2023-02-30T00:00:00Z')", "invalid ISO 8601"),
        ("TID.fromISO8601('2023-02-03T00:00:00')", "invalid ISO 8601"),
        ("TID.fromNumber(-1)", "invalid TID number"),
    ] {
        assert!(stage.error_of(expression).await.ends_with(message), "{expression}");
    }
}

#[tokio::test]
async fn saving_runs_the_top_level_in_a_bare_sandbox() {
    let stage = Stage::set().await;
    let check = async |source: &str| {
        stage.engine.check(Trigger::parse(TRIGGER).unwrap(), source, &std::sync::Arc::default()).await
    };
    let checked = check(
        "log('hidden') print('hidden') local key = env.ANY assert(key == '' or key == nil)
         local query = db.query local at = now() local id = TID()
         function handle() return query{ collection = 'a.b.c' } end",
    )
    .await
    .unwrap();
    assert!(stage.lines.0.lock().unwrap().is_empty());
    // The checked script can be run without compiling it again.
    let outcome = stage.engine.run(&checked.script, Invocation::default(), &stage.services).await.unwrap();
    assert_eq!(&*outcome.body, br#"{"records":[]}"#);

    for (source, kind, message) in [
        ("function handle(", FailureKind::Syntax, ":1:"),
        ("local x = 1", FailureKind::MissingHandle, "handle()"),
        ("error('at load') function handle() end", FailureKind::Runtime, ":1: at load"),
        (
            "db.query{ collection = 'a.b.c' } function handle() end",
            FailureKind::Runtime,
            "while the script is being saved",
        ),
        ("while true do end", FailureKind::Limit, "instructions"),
        ("\u{1b}Lua", FailureKind::Syntax, "not bytecode"),
    ] {
        let failure = check(source).await.unwrap_err();
        assert_eq!(failure.kind, kind, "{source}: {failure:?}");
        assert!(failure.message.contains(message), "{source}: {failure:?}");
    }
    let long = format!("--{}\nfunction handle() end", "x".repeat(600_000));
    assert_eq!(check(&long).await.unwrap_err().kind, FailureKind::Syntax);
}
