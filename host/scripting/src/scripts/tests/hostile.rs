//! Malicious scripts: each ends in the right failure, and does not affect other runs.

use std::time::{Duration, Instant};

use super::FailureKind::{Limit, Memory, Runtime, Syntax};
use super::{FailureKind, Invocation, Stage, TRIGGER};
use belvedere_protocol::trigger::Trigger;

async fn all_end(scripts: &[(&str, FailureKind)]) {
    let stage = Stage::set().await;
    for (source, kind) in scripts {
        let started = Instant::now();
        let failure = stage.run(source).await.expect_err(source);
        assert_eq!(failure.kind, *kind, "{source}: {failure:?}");
        assert!(started.elapsed() < Duration::from_secs(10), "{source}: {:?}", started.elapsed());
        // The engine still works.
        assert_eq!(stage.eval("1").await, 1);
    }
}

#[tokio::test]
async fn endless_loops() {
    all_end(&[
        ("while true do end", Limit),
        ("repeat until false", Limit),
        ("::a:: goto a", Limit),
        ("for i = 1, math.huge do end", Limit),
        ("local function f() return f() end f()", Limit),
        ("for _ in function() return 1 end do end", Limit),
        ("function handle() while true do end end", Limit),
        ("function handle() for i = 1, 1e9 do local t = { i } end end", Limit),
        ("function handle() return setmetatable({}, { __index = function() while true do end end }).x end", Limit),
        ("function handle() local t = setmetatable({}, { __eq = function() while true do end end }) return t == setmetatable({}, getmetatable(t)) end", Limit),
        ("function handle() local t = setmetatable({}, { __lt = function() while true do end end }) return t < t end", Limit),
        ("function handle() local t = setmetatable({}, { __concat = function() while true do end end }) return t .. t end", Limit),
        ("function handle() local t = setmetatable({}, { __len = function() while true do end end }) return #t end", Limit),
        ("function handle() return setmetatable({}, { __call = function() while true do end end })() end", Limit),
        ("function handle() return tostring(setmetatable({}, { __tostring = function() while true do end end })) end", Limit),
        ("function handle() for _ in pairs(setmetatable({}, { __pairs = function() while true do end end })) do end end", Limit),
        ("function handle() table.sort({ 2, 1 }, function() while true do end end) end", Limit),
        ("function handle() return ('x'):gsub('x', function() while true do end end) end", Limit),
        ("function handle() error(setmetatable({}, { __tostring = function() while true do end end })) end", Limit),
    ])
    .await;
}

#[tokio::test]
async fn nothing_catches_the_instruction_limit() {
    all_end(&[
        ("while true do pcall(function() while true do end end) end", Limit),
        ("pcall(function() while true do end end) function handle() end", Limit),
        ("function handle() pcall(pcall, pcall, function() while true do end end) return 'survived' end", Limit),
        ("function handle() xpcall(function() while true do end end, function() return 1 end) return 'survived' end", Limit),
        ("function handle() xpcall(error, function() while true do end end) return 'survived' end", Limit),
        ("function handle() xpcall(function() while true do end end, function() while true do end end) end", Limit),
        ("function handle() coroutine.wrap(function() while true do end end)() return 'survived' end", Limit),
        ("function handle() coroutine.resume(coroutine.create(function() while true do end end)) return 'survived' end", Limit),
        ("function handle() while true do local c = coroutine.wrap(function() coroutine.yield() end) c() c() end end", Limit),
        ("function handle() local c = coroutine.create(function() local x <close> = setmetatable({}, { __close = function() while true do end end }) coroutine.yield() end) coroutine.resume(c) coroutine.close(c) return 'survived' end", Limit),
        ("function handle() do local x <close> = setmetatable({}, { __close = function() while true do end end }) end return 'survived' end", Limit),
        ("function handle() pcall(function() local x <close> = setmetatable({}, { __close = function() while true do end end }) error('x') end) return 'survived' end", Limit),
        ("function handle() for i = 1, 1e9 do setmetatable({}, { __gc = function() while true do end end }) end end", Limit),
        ("local function again() setmetatable({}, { __gc = again }) end again() function handle() while true do local t = {} end end", Limit),
    ])
    .await;
}

#[tokio::test]
async fn fuel_stops_work_inside_library_functions() {
    all_end(&[
        ("function handle() return ('a'):rep(200000):find(('.-'):rep(30) .. 'b') end", Limit),
        ("function handle() return ('a'):rep(30000):match(('a*'):rep(20) .. 'b') end", Limit),
        ("function handle() table.move({}, 1, 1 << 40, 2) end", Limit),
        ("function handle() return #(''):rep(1 << 31) end", Limit),
        ("function handle() while true do local s = ('x'):rep(1000000):upper() end end", Limit),
        ("function handle() local t = {} for i = 1, 50000 do t[i] = -i end while true do table.sort(t) table.sort(t, function(a, b) return a > b end) end end", Limit),
        ("function handle() local s = ('x'):rep(100000) while true do json.decode(json.encode({ s, s, s })) end end", Limit),
        ("function handle() local t = {} for i = 1, 200000 do t[i] = 'abc' end while true do table.concat(t) end end", Limit),
        ("function handle() local s = ('x'):rep(1 << 20) while true do s:reverse() end end", Limit),
        ("function handle() while true do utf8.len(('é'):rep(1 << 18)) end end", Limit),
    ])
    .await;
}

#[tokio::test]
async fn memory_bombs() {
    all_end(&[
        ("function handle() return #('x'):rep(1 << 30) end", Memory),
        ("function handle() local s = 'x' while true do s = s .. s end end", Memory),
        ("function handle() local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end end", Memory),
        ("function handle() local t = {} for i = 1, 1e9 do t = { t, t } end return t end", Limit),
        ("function handle() local t = {} while true do t[#t + 1] = coroutine.create(function() end) end end", Memory),
        ("function handle() return table.concat({ ('x'):rep(20 << 20), ('y'):rep(11 << 20) }) end", Memory),
        ("function handle() return json.encode(('\\0'):rep(10 << 20)) end", Memory),
        ("function handle() return select('#', table.unpack({}, 1, 1e8)) end", Runtime),
        ("function handle() return string.format('%99999d', 1) end", Runtime),
        ("function handle() return ('x'):rep(1 << 60) end", Runtime),
        ("function handle() return string.pack('!16 s', ('x'):rep(1 << 25)) end", Memory),
    ])
    .await;
}

#[tokio::test]
async fn a_caught_memory_error_leaves_a_working_script() {
    let stage = Stage::set().await;
    let seen = stage
        .handle(
            "local ok, message = pcall(function() local s = 'x' while true do s = s .. s end end)
             local t = {} for i = 1, 1000 do t[i] = i end
             return { ok, message, #t }",
        )
        .await
        .unwrap();
    assert_eq!(seen, serde_json::json!([false, "not enough memory", 1000]));
}

#[tokio::test]
async fn deep_recursion() {
    all_end(&[
        ("function handle() local function f() return 1 + f() end return f() end", Limit),
        ("function handle() local function f(...) return 1 + f(1, 2, 3, 4, 5, 6, 7, 8, ...) end return f() end", Runtime),
        ("function handle() local function f() return (('x'):gsub('x', f)) end return f() end", Runtime),
        ("function handle() local t = setmetatable({}, {}) getmetatable(t).__tostring = function(x) return tostring(x) end return tostring(t) end", Runtime),
        ("function handle() local t = setmetatable({}, {}) getmetatable(t).__index = function(x, k) return x[k] end return t.x end", Runtime),
        ("function handle() local function f() coroutine.wrap(f)() end f() end", Runtime),
        ("function handle() local function f() table.sort({ 1, 2, 3 }, f) end f() end", Runtime),
        ("function handle() local t = {} for i = 1, 10 do t = setmetatable({}, { __index = t }) end local s = setmetatable({}, {}) getmetatable(s).__index = s return s.x end", Runtime),
        ("function handle() return ('('):rep(300000):find(('('):rep(300)) end", Runtime),
        ("function handle() return json.decode(('['):rep(1000000)) end", Runtime),
        (&format!("return {}1{}", "(".repeat(10_000), ")".repeat(10_000)), Syntax),
        (&format!("local x = {}1{}", "{".repeat(10_000), "}".repeat(10_000)), Syntax),
        (&format!("local x = {}", "not ".repeat(50_000)), Syntax),
    ])
    .await;
}

#[tokio::test]
async fn a_caught_stack_overflow_is_no_failure() {
    let stage = Stage::set().await;
    assert_eq!(stage.handle("local function f() return pcall(f) end return f()").await.unwrap(), true);
}

/// The C stack is large enough for Lua's own limit of nested C calls.
#[tokio::test]
async fn nested_calls_of_library_functions_end_in_an_error_that_can_be_caught() {
    let stage = Stage::set().await;
    for body in [
        "return (('x'):gsub('x', f))",
        "table.sort({ 1, 2, 3 }, f)",
        "return string.format('%s', setmetatable({}, { __tostring = f }))",
        "return table.concat(setmetatable({}, { __len = function() return 1 end, __index = f }))",
        "return ('x'):rep(10):gsub('%w+', function() return tostring(setmetatable({}, { __tostring = f })) end)",
        "return json.encode(setmetatable({}, { __index = f }), table.unpack({ xpcall(f, error) }))",
        "return select(2, coroutine.resume(coroutine.create(function() return ('x'):gsub('x', f) end)))",
        "for _ in pairs(setmetatable({}, { __pairs = f })) do end",
    ] {
        let source = format!(
            "local depth, last = 0, nil
             local function f()
               depth = depth + 1
               local ok, message = pcall(function() {body} end)
               last = last or message
               error(message, 0)
             end
             pcall(f)
             return {{ depth = depth, last = tostring(last) }}"
        );
        let seen = stage.handle(&source).await.unwrap();
        assert!(seen["depth"].as_u64().unwrap() > 20, "{body}: {seen}");
        assert!(seen["last"].as_str().unwrap().contains("C stack overflow"), "{body}: {seen}");
    }
}

#[tokio::test]
async fn floods_of_host_calls() {
    all_end(&[
        ("function handle() while true do db.query{ collection = 'a.b.c' } end end", Runtime),
        ("function handle() while true do pcall(db.query, { collection = 'a.b.c' }) end end", Limit),
        ("function handle() while true do log('x') end end", Runtime),
        ("function handle() while true do pcall(print, 'x') end end", Limit),
        ("function handle() while true do now() TID() end end", Limit),
    ])
    .await;
}

/// Two workers, both kept busy by scripts that burn fuel inside one library call; a third script still answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_runs_leave_the_latency_of_others_alone() {
    let stage = std::sync::Arc::new(Stage::set().await);
    let hostile = async |stage: std::sync::Arc<Stage>| {
        let source = "function handle() table.move({}, 1, 1 << 40, 2) end";
        let script = stage.engine.compile(Trigger::parse(TRIGGER).unwrap(), source).await;
        loop {
            let ended = stage.engine.run(&script, Invocation::default(), &stage.services).await;
            assert_eq!(ended.unwrap_err().kind, Limit);
        }
    };
    let loops = [tokio::spawn(hostile(stage.clone())), tokio::spawn(hostile(stage.clone()))];
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut waits = Vec::new();
    let other = stage.clone();
    let measured = tokio::spawn(async move {
        let script =
            other.engine.compile(Trigger::parse(TRIGGER).unwrap(), "function handle() return 1 end").await;
        for _ in 0..50 {
            let started = Instant::now();
            other.engine.run(&script, Invocation::default(), &other.services).await.unwrap();
            waits.push(started.elapsed());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        waits.sort();
        waits
    });
    let waits = measured.await.unwrap();
    for hostile in &loops {
        assert!(!hostile.is_finished());
        hostile.abort();
    }
    assert!(waits[25] < Duration::from_millis(50), "median {:?}, worst {:?}", waits[25], waits[49]);
}
