//! Tests of the counted limits: instructions, which are exact, and a run's use of the host.

use serde_json::json;

use super::{EngineConfig, FailureKind, Invocation, Stage, TRIGGER, of_client};
use crate::scripts::limits;
use belvedere_protocol::trigger::Trigger;

async fn loops(stage: &Stage, source: &str, n: u32) -> Result<(), FailureKind> {
    let params = [("n".to_owned(), n.to_string())];
    let invocation = Invocation { params: Some(&params), ..Invocation::default() };
    stage.run_with(source, invocation).await.map(drop).map_err(|failure| failure.kind)
}

/// A loop of one instruction per iteration, in each context where code can run.
const CONTEXTS: [(&str, &str); 5] = [
    ("handle", "function handle() for i = 1, math.tointeger(params.n) do end end"),
    ("the chunk", "for i = 1, math.tointeger(params.n) do end function handle() end"),
    (
        "a coroutine",
        "function handle() coroutine.wrap(function() for i = 1, math.tointeger(params.n) do end end)() end",
    ),
    (
        "a metamethod",
        "function handle() local t = setmetatable({}, { __index = function() for i = 1, math.tointeger(params.n) do end end })
         return t.x end",
    ),
    ("pcall", "function handle() pcall(function() for i = 1, math.tointeger(params.n) do end end) end"),
];

#[tokio::test]
async fn a_million_instructions_wherever_they_run() {
    let stage = Stage::set().await;
    for (context, source) in CONTEXTS {
        assert_eq!(loops(&stage, source, 990_000).await, Ok(()), "{context}");
        assert_eq!(loops(&stage, source, 1_010_000).await, Err(FailureKind::Limit), "{context}");
    }
}

#[tokio::test]
async fn the_count_is_exact() {
    let stage = Stage::set().await;
    for (context, source) in CONTEXTS {
        let (mut fits, mut fails) = (999_000, 1_000_000);
        while fails - fits > 1 {
            let middle = u32::midpoint(fits, fails);
            match loops(&stage, source, middle).await {
                Ok(()) => fits = middle,
                Err(_) => fails = middle,
            }
        }
        // A second run gives the same: the count depends only on the script.
        assert_eq!(loops(&stage, source, fits).await, Ok(()), "{context}");
        assert_eq!(loops(&stage, source, fails).await, Err(FailureKind::Limit), "{context}");
        assert!(1_000_000 - fits < 60, "{context}: {fits}");
    }
}

#[tokio::test]
async fn chunk_and_handle_share_one_budget() {
    let stage = Stage::set().await;
    let source = "for i = 1, 600000 do end function handle() for i = 1, 600000 do end end";
    let failure = stage.run(source).await.unwrap_err();
    assert_eq!((failure.kind, failure.line), (FailureKind::Limit, Some(1)));
    assert_eq!(failure.public_text(), "script exceeded execution time limit");
}

/// The VM keeps the counter in a register and saves it before whatever may raise an error.
#[tokio::test]
async fn a_caught_error_refunds_no_instructions() {
    let stage = Stage::set().await;
    let full = "local sizes, kept = { ('x'):rep(64) }, {} \
                for i = 2, 17 do sizes[i] = sizes[i - 1] .. sizes[i - 1] end \
                local function keep(text) kept[#kept + 1] = text .. #kept end \
                for i = 17, 1, -1 do while pcall(keep, sizes[i]) do end end";
    let items = "1,".repeat(500);
    for (prepare, error) in [
        ("", "error('x')".to_owned()),
        ("", "local x = nil + 1".to_owned()),
        ("", "local x = 1 // 0".to_owned()),
        ("", "local x <const> = #5".to_owned()),
        ("", "coroutine.wrap(function() error('x') end)()".to_owned()),
        (full, format!("local t = {{ {items} }}")),
        (full, "local t = ('x'):rep(100000)".to_owned()),
    ] {
        let source = format!(
            "{prepare} local function f() for i = 1, 100000 do end {error} end \
             for i = 1, 9 do if pcall(f) then return 'no error' end end return 'nine'"
        );
        assert_eq!(stage.handle(&source).await.unwrap(), json!("nine"), "{error}");
        let failure = stage.handle(&source.replace("1, 9", "1, 10")).await.unwrap_err();
        assert!(failure.message.contains("more than 1000000 instructions"), "{error}: {failure}");
    }
}

#[tokio::test]
async fn the_failing_line_is_known() {
    let stage = Stage::set().await;
    let failure = stage.run("function handle()\n\n  while true do end\nend").await.unwrap_err();
    assert_eq!((failure.kind, failure.line), (FailureKind::Limit, Some(3)));
}

#[tokio::test]
async fn calls_rows_bytes_and_lines_are_bounded() {
    let stage = Stage::set().await;
    stage.put(&[("at://did:plc:a/a.b.c/1", "{}")]);
    assert_eq!(
        stage.handle("for i = 1, 1000 do db.count('a.b.c') end return true").await.unwrap(),
        json!(true)
    );
    let failure = stage.handle("for i = 1, 1001 do db.count('a.b.c') end").await.unwrap_err();
    assert!(failure.message.contains("too many calls to the host"), "{failure}");

    let failure = stage.handle("for i = 1, 101 do log('x') end").await.unwrap_err();
    assert!(failure.message.contains("too many log lines"), "{failure}");
    assert_eq!(stage.lines.0.lock().unwrap().len(), 100);

    stage.put(&[("at://did:plc:a/a.b.c/1", "{}"); 100]);
    let failure = stage.handle("for i = 1, 101 do db.query{ collection = 'a.b.c' } end").await.unwrap_err();
    assert!(failure.message.contains("too many rows"), "{failure}");

    let large = format!("{{\"x\":\"{}\"}}", "x".repeat(1 << 20));
    stage.put(&[("at://did:plc:a/a.b.c/1", large.as_str())]);
    let failure = stage.handle("for i = 1, 17 do db.query{ collection = 'a.b.c' } end").await.unwrap_err();
    assert!(failure.message.contains("too many bytes of rows"), "{failure}");

    // The fault of a refused call can be caught, but all further calls are refused too.
    let seen = stage
        .handle("local n = 0 for i = 1, 2000 do if pcall(db.count, 'a.b.c') then n = n + 1 end end return n")
        .await
        .unwrap();
    assert_eq!(seen, json!(1000));
}

#[tokio::test]
async fn a_tenants_share_is_its_own() {
    let config = EngineConfig { client_fuel: 1_000_000, ..EngineConfig::new(super::cache_dir()) };
    let mut stage = Stage::set().await;
    stage.engine = crate::scripts::Engine::open(config).await.unwrap();
    let run = async |client: &str, source| {
        let caller = of_client(client);
        let invocation = Invocation { caller: Some(&caller), ..Invocation::default() };
        stage.run_with(source, invocation).await.map(drop).map_err(|failure| failure.kind)
    };
    // The clock stands still, so the bucket is not refilled. Failed runs count as others do.
    assert_eq!(
        run("a", "function handle() table.move({}, 1, 1 << 40, 2) end").await,
        Err(FailureKind::Limit)
    );
    assert_eq!(run("a", "function handle() end").await, Err(FailureKind::Throttled));
    assert_eq!(run("b", "function handle() end").await, Ok(()));
}

#[tokio::test]
async fn large_answers_take_from_their_clients_share() {
    let stage = Stage::set().await;
    let run = async |client: &'static str, source| {
        let caller = of_client(client);
        let invocation = Invocation { caller: Some(&caller), ..Invocation::default() };
        stage.run_with(source, invocation).await.map(drop).map_err(|failure| failure.kind)
    };
    // The clock stands still, so the bucket is not refilled. Small answers are not charged.
    let (large, small) =
        ("function handle() return ('x'):rep(8000000) end", "function handle() return 1 end");
    let mut given = 0;
    while run("answers-a", large).await == Ok(()) {
        given += 1;
        assert!(given < 100, "the bucket never empties");
    }
    assert!(given > 2);
    assert_eq!(run("answers-a", small).await, Err(FailureKind::Throttled));
    assert_eq!(run("answers-b", large).await, Ok(()));
    for _ in 0..100 {
        assert_eq!(run("answers-c", small).await, Ok(()));
    }
}

/// A client that tries again at once is slowed by refusals.
#[tokio::test(start_paused = true)]
async fn a_refusal_comes_after_a_pause() {
    let config = EngineConfig { client_fuel: 1, ..EngineConfig::new(super::cache_dir()) };
    let mut stage = Stage::set().await;
    stage.engine = crate::scripts::Engine::open(config).await.unwrap();
    let caller = of_client("a");
    let invocation = Invocation { caller: Some(&caller), ..Invocation::default() };
    let script = stage.engine.compile(Trigger::parse(TRIGGER).unwrap(), "function handle() end").await;
    stage.engine.run(&script, invocation, &stage.services).await.unwrap();
    // The fuel of a whole run, of which a part is used up: the bucket is overdrawn by more than can be waited for.
    let overdraws = "function handle() table.move({}, 1, 1 << 40, 2) end";
    assert_eq!(stage.run_with(overdraws, invocation).await.unwrap_err().kind, FailureKind::Limit);
    for _ in 0..3 {
        let started = tokio::time::Instant::now();
        let failure = stage.engine.run(&script, invocation, &stage.services).await.unwrap_err();
        assert_eq!((failure.kind, started.elapsed()), (FailureKind::Throttled, limits::REFUSAL_PAUSE));
    }
}

#[tokio::test]
async fn results_are_bounded() {
    let stage = Stage::set().await;
    let failure = stage.handle("return ('x'):rep(9 << 20)").await.unwrap_err();
    assert!(failure.message.contains("the result is larger"), "{failure}");
    assert_eq!(stage.handle("return #('x'):rep(9 << 20)").await.unwrap(), json!(9 << 20));
}

#[tokio::test]
async fn long_errors_are_cut() {
    let stage = Stage::set().await;
    let failure = stage.handle("error(('x'):rep(1 << 20))").await.unwrap_err();
    assert!(failure.message.len() < 10_000);
}

/// Expensive but ordinary work, about as much as the instructions allow, takes less than three quarters of the fuel.
#[tokio::test]
async fn ordinary_code_meets_the_instructions_before_the_fuel() {
    let stage = Stage::set().await;
    for (body, iterations) in [
        ("local s = string.format('%d:%s:%.3f', i, 'x', i / 3)", 100_000),
        ("local s = 'item ' .. i .. ' of ' .. n", 100_000),
        ("local t = { i, i + 1, name = 'x' }", 100_000),
        ("local f = function() return i end f()", 100_000),
        ("local a, b = ('key=value'):match('^(%w+)=(%w+)$')", 100_000),
        ("local s = ('Hello, World'):lower():gsub('%W+', '-')", 60_000),
        ("local ok = pcall(error, 'x')", 80_000),
        ("local t = setmetatable({}, { __index = function() return 1 end }) local x = t.y", 60_000),
        ("local s = json.encode({ id = i, text = 'some text', tags = { 'a', 'b' } })", 40_000),
        ("local v = json.decode('{\"id\":1,\"text\":\"some text\",\"tags\":[\"a\",\"b\"]}')", 100_000),
        ("local t = {} for j = 1, 20 do t[j] = -j end table.sort(t)", 6_000),
        ("local c = coroutine.wrap(function() coroutine.yield(1) end) c() c()", 40_000),
        ("local s = tostring(i) + tonumber('12.5')", 90_000),
        ("local s = json.encode({ i + 0.5, i / 100 })", 60_000),
        ("local d = os.date('!%Y-%m-%d', i)", 60_000),
    ] {
        let source = format!("function handle() local n = {iterations} for i = 1, n do {body} end end");
        let outcome = stage
            .run_with(&source, Invocation::default())
            .await
            .unwrap_or_else(|failure| panic!("{body}: {failure:?}"));
        let fuel = outcome.usage.fuel;
        assert!(fuel < limits::FUEL / 4 * 3, "{body}: {fuel}");
    }
}
