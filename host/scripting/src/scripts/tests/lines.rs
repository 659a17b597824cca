//! Tests that every uncaught error and every limit names the script's line.

use super::{FailureKind, Invocation, Stage, TRIGGER, engine};
use crate::scripts::services::StandIn;
use crate::scripts::{ScriptFailure, Services};
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_protocol::trigger::Trigger;

/// Checks that the message of a failure begins with the trigger and this line.
fn has_line(failure: &ScriptFailure, line: u32, source: &str) {
    assert_eq!(failure.line, Some(line), "{source}: {failure}");
    assert!(failure.message.starts_with(&format!("{TRIGGER}:{line}: ")), "{source}: {failure}");
}

/// Runs each text as the third line of `handle()`, and checks that the failure names that line.
async fn fail_on_line_3(kind: FailureKind, texts: &[(&str, &str)]) {
    let stage = Stage::set().await;
    for (text, message) in texts {
        let source = format!("function handle()\n  local t = {{}}\n  {text}\n  return t\nend");
        let source = if text.starts_with("return") { source.replace("\n  return t\n", "\n") } else { source };
        let failure = stage.run(&source).await.unwrap_err();
        assert_eq!(failure.kind, kind, "{text}: {failure}");
        has_line(&failure, 3, text);
        assert!(failure.message.contains(message), "{text}: {failure}");
    }
}

#[tokio::test]
async fn tail_calls_into_the_server_have_one() {
    fail_on_line_3(
        FailureKind::Runtime,
        &[
            ("return db.get('x')", "db.get: not the AT URI of a record (at://<did>/<collection>/<rkey>): it does not begin with at://"),
            ("return db.query{ collection = 'com.example.down' }", "database unavailable"),
            ("return db.query(7)", "db.query: table expected, got number"),
            ("return db.raw('')", "db.raw"),
            ("return log({})", "log: string expected, got table"),
            ("return Record()", "Record: collection"),
            ("return Record.load(7)", "Record.load: uri"),
            ("return TID.toNumber('x')", "invalid TID"),
            ("return toarray(7)", "toarray: table expected"),
            ("return json.decode('x')", "json.decode"),
            ("return json.encode(print)", "json.encode: value: a function can't be JSON"),
            ("return http.get('https://x.example')", "http"),
            ("return xrpc.query(7)", "xrpc.query: nsid: string expected"),
            ("return jobs.create(7)", "jobs.create: type: string expected"),
            ("return atproto.get_labels(7)", "atproto.get_labels: uri"),
            ("return linked_repos.get(7)", "linked_repos.get: did"),
            ("return plugin.x.y()", "plugin.x.y is not available here"),
            ("return plugin.x.y(print)", "plugins.call: args[1]: a function can't be JSON"),
            ("return plugin[7]", "plugin: the name of a plugin must be a string"),
            ("return print(setmetatable(t, { __tostring = true }))", "attempt to call"),
        ],
    )
    .await;
}

#[tokio::test]
async fn errors_of_lua_have_one() {
    fail_on_line_3(
        FailureKind::Runtime,
        &[
            ("for _ in ipairs(nil) do end", "attempt to index a nil value"),
            ("for _ in pairs(nil) do end", "table expected, got nil"),
            ("return ipairs(nil)(nil, 0)", "attempt to index a nil value"),
            ("error('no position', 0)", "no position"),
            ("assert(false, 'mine')", "mine"),
            ("error()", "nil"),
            ("return error({ code = 5 })", r#"{"code":5}"#),
            ("t.x.y = 1", "attempt to index a nil value (field 'x')"),
            ("return string.char(256)", "bad argument #1 to 'char'"),
            ("coroutine.wrap(db.get)('x')", "db.get: not the AT URI of a record (at://<did>/<collection>/<rkey>): it does not begin with at://"),
            ("coroutine.wrap(error)({ code = 5 })", r#"{"code":5}"#),
            ("coroutine.wrap(function() error('inside') end)()", "inside"),
            ("table.sort({ 2, 1 }, function() return db.get('x') end)", "db.get"),
            ("t = setmetatable(t, { __index = db.get }).x", "db.get"),
        ],
    )
    .await;
}

#[tokio::test]
async fn limits_have_one() {
    fail_on_line_3(
        FailureKind::Limit,
        &[
            ("while true do end", "more than 1000000 instructions"),
            (
                "return print(setmetatable(t, { __tostring = function() while true do end end }))",
                "instructions",
            ),
            ("coroutine.wrap(function() while true do end end)()", "instructions"),
            (
                "coroutine.wrap(print)(setmetatable(t, { __tostring = function() while true do end end }))",
                "instr",
            ),
            ("table.move(t, 1, 1 << 40, 2)", "too much work in library functions"),
            ("return table.move(t, 1, 1 << 40, 2)", "too much work in library functions"),
            ("return ('a'):rep(200000):find(('.-'):rep(30) .. 'b')", "too much work in library functions"),
            ("coroutine.wrap(function() table.move(t, 1, 1 << 40, 2) end)()", "too much work"),
            ("coroutine.wrap(table.move)(t, 1, 1 << 40, 2)", "too much work"),
            ("pcall(table.move, t, 1, 1 << 40, 2)", "too much work"),
        ],
    )
    .await;
    fail_on_line_3(
        FailureKind::Memory,
        &[
            ("local s = 'x' while true do s = s .. s end", "not enough memory"),
            ("while true do t[#t + 1] = ('x'):rep(100000) .. #t end", "not enough memory"),
            ("return ('x'):rep(1 << 30)", "not enough memory"),
            ("pcall(string.rep, 'x', 1 << 30) t = ('x'):rep(1 << 30)", "not enough memory"),
            (
                "coroutine.wrap(function() local s = 'x' while true do s = s .. s end end)()",
                "not enough memory",
            ),
            ("return json.encode(('\\0'):rep(10 << 20))", "not enough memory"),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_overflow_of_any_stack_has_one() {
    let stage = Stage::set().await;
    for body in [
        "local function f(...)\n return 1 + f(1, 2, 3, 4, 5, 6, 7, 8, ...) end return f()",
        "local function f()\n return (('x'):gsub('x', f)) end return f()",
        "local function f()\n coroutine.wrap(f)() end f()",
        "local function f()\n table.sort({ 1, 2, 3 }, f) end f()",
        "local s = ('('):rep(300)\n return ('('):rep(300000):find(s)",
    ] {
        let failure = stage.handle(body).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Runtime, "{body}: {failure}");
        assert_eq!(failure.line, Some(2), "{body}: {failure}");
        assert!(failure.message.starts_with(TRIGGER), "{body}: {failure}");
    }
}

#[tokio::test]
async fn a_result_that_is_no_json_has_its_path_and_the_line_of_handle() {
    let stage = Stage::set().await;
    for (result, message) in [
        ("print", "result: a function can't be JSON"),
        ("{ items = { 1, 2, { when = print } } }", "result.items[3].when: a function can't be JSON"),
        ("{ ['a b'] = { x = 0/0 } }", r#"result["a b"].x: nan is not a JSON number"#),
        ("{ list = { { 1, x = 2 } } }", "result.list[1]: a table mixes an array with named fields"),
        ("{ a = 1, b = { [true] = 1 } }", "result.b: a table has a boolean as a key"),
        ("{ a = { b = '\\xff' }, c = 1 }", "result.a.b: a string is not valid UTF-8"),
        (
            "(function() local t = {} t.t = t return t end)()",
            "result.t.t.t.t.t.t.t.t.t.t.t.t…: nested more than 127",
        ),
        (
            "(function() local t = {} t[('x'):rep(100)] = print return t end)()",
            "xxx…: a function can't be JSON",
        ),
    ] {
        let failure =
            stage.run(&format!("local x = 1\nfunction handle()\n return {result}\nend")).await.unwrap_err();
        has_line(&failure, 2, result);
        assert!(failure.message.contains(message), "{result}: {failure}");
    }
    let inner = stage.error_of("json.encode({ a = { print } })").await;
    assert!(inner.contains("json.encode: value.a[1]: a function can't be JSON"), "{inner}");
}

#[tokio::test]
async fn errors_of_saving_have_one() {
    let stage = Stage::set().await;
    let check = async |source: &str| {
        stage
            .engine
            .check(Trigger::parse(TRIGGER).unwrap(), source, &std::sync::Arc::default())
            .await
            .unwrap_err()
    };
    let deep = format!("\nlocal x = {}1{}", "(".repeat(10_000), ")".repeat(10_000));
    for (source, line) in [
        ("function handle()\n  return 1 +\nend", 3),
        ("\nreturn db.get('x')", 2),
        ("\nfor _ in ipairs(nil) do end", 2),
        ("\n\nwhile true do end", 3),
        ("\nlocal s = 'x' while true do s = s .. s end", 2),
        ("\ntable.move({}, 1, 1 << 40, 2)", 2),
        ("\nerror({ code = 5 })", 2),
        (deep.as_str(), 2),
    ] {
        has_line(&check(source).await, line, &source[..source.len().min(80)]);
    }
}

#[tokio::test]
async fn a_byte_order_mark_and_a_first_line_for_the_shell_are_skipped() {
    let stage = Stage::set().await;
    for head in
        ["\u{feff}", "#!/usr/bin/env lua\n", "\u{feff}#!/usr/bin/env lua\r\n", "# no comment of Lua\n"]
    {
        assert_eq!(stage.run(&format!("{head}function handle() return 7 end")).await.unwrap(), 7, "{head:?}");
        let line = 2 + u32::from(head.contains('\n'));
        let failure = stage.run(&format!("{head}\nfunction handle() error('x') end")).await.unwrap_err();
        has_line(&failure, line, head);
        let broken = stage.run(&format!("{head}\nfunction handle( end")).await.unwrap_err();
        has_line(&broken, line, head);
    }
    for source in ["", "#", "#!x", "\u{feff}", "\u{feff}#", "#\n"] {
        assert_eq!(stage.run(source).await.unwrap_err().kind, FailureKind::MissingHandle, "{source:?}");
    }
    let failure = stage.run("\n#!x\nfunction handle() end").await.unwrap_err();
    assert_eq!(
        (failure.kind, failure.line),
        (FailureKind::Syntax, Some(2)),
        "only the first line is skipped"
    );
    let bytecode = stage.run("\u{feff}\u{1b}Lua").await.unwrap_err();
    assert_eq!(bytecode.kind, FailureKind::Syntax, "{bytecode}");
}

#[tokio::test]
async fn functions_are_named_where_lua_names_them() {
    let stage = Stage::set().await;
    for (call, message) in [
        ("string.char, 256", "bad argument #1 to 'string.char' (value out of range)"),
        ("os.date, {}", "bad argument #1 to 'os.date' (string expected, got table)"),
        ("setmetatable, 1", "bad argument #1 to 'setmetatable' (table expected, got number)"),
        ("json.decode", "bad argument #1 to 'json.decode' (string expected, got no value)"),
    ] {
        let seen = stage.eval(&format!("(select(2, pcall({call})))")).await;
        assert_eq!(seen, message, "{call}");
    }
}

#[tokio::test]
async fn a_raised_table_is_logged_as_json() {
    let stage = Stage::set().await;
    for (error, message) in [
        ("{ code = 5 }", r#"{"code":5}"#),
        ("{}", "{}"),
        ("{ 1, { a = json.null } }", r#"[1,{"a":null}]"#),
        ("setmetatable({}, { __tostring = function() return 'text' end })", "text"),
        ("{ f = print }", "error.f: a function can't be JSON"),
        ("print", "function: "),
        ("7.5", "7.5"),
    ] {
        let failure = stage.handle(&format!("error({error})")).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Runtime, "{error}: {failure}");
        has_line(&failure, 1, error);
        assert!(failure.message.contains(message), "{error}: {failure}");
        assert_eq!((failure.answer, failure.fault), (None, None), "{error}");
    }
}

#[tokio::test]
async fn a_run_that_waits_for_too_long_has_one() {
    let stage = Stage::set().await;
    let services = Services::new(
        std::sync::Arc::new(StandIn::silent()),
        stage.lines.clone(),
        Clock::fixed(super::NOW),
        Random::system(),
    );
    for (trigger, seconds) in [(TRIGGER, 60), ("record.index:com.example.note", 30)] {
        let source = "function handle()\n\n  return db.get('at://did:plc:a/a.b.c/1')\nend";
        let script = engine().await.compile(Trigger::parse(trigger).unwrap(), source).await;
        tokio::time::pause();
        let started = tokio::time::Instant::now();
        let failure = stage.engine.run(&script, Invocation::default(), &services).await.unwrap_err();
        let took = started.elapsed().as_secs();
        tokio::time::resume();
        assert_eq!((failure.kind, failure.line), (FailureKind::Limit, Some(3)), "{failure}");
        assert!(
            failure.message.starts_with(&format!("{trigger}:3: took longer than a run may take")),
            "{failure}"
        );
        assert_eq!(took, seconds, "{trigger}");
    }
}

#[tokio::test]
async fn an_instance_that_was_stopped_harms_no_later_run() {
    let stage = Stage::set().await;
    for _ in 0..5 {
        let failure = stage.handle("table.move({}, 1, 1 << 40, 2)").await.unwrap_err();
        assert_eq!((failure.kind, failure.line), (FailureKind::Limit, Some(1)));
    }
    assert_eq!(stage.eval("1 + 1").await, 2);
}
