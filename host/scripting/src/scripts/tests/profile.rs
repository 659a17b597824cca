//! Profiles of runs.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use super::{Stage, TRIGGER};
use crate::scripts::{
    EndedRun, Engine, EngineConfig, FailureKind, Invocation, RunObserver, RunProfile, ScriptRegistry,
};
use belvedere_protocol::trigger::Trigger;

/// Receives the runs, with profiles or without.
struct Runs {
    profiles: bool,
    ended: Mutex<Vec<EndedRun>>,
}

impl RunObserver for Runs {
    fn wants_profiles(&self) -> bool {
        self.profiles
    }

    fn ended(&self, run: EndedRun) {
        self.ended.lock().unwrap().push(run);
    }
}

const LIBRARY: &str = "local M = {}
function M.sum(n)
    local sum = 0
    for i = 1, n do sum = sum + i end
    return sum
end
return M";

/// Runs a script without a profile and with one, and compares what can be compared.
async fn profiled(source: &str) -> (EndedRun, Arc<RunProfile>) {
    let mut runs = Vec::new();
    for profiles in [false, true] {
        let stage = Stage::set().await;
        stage
            .put(&[("at://did:plc:a/com.example.note/1", "{}"), ("at://did:plc:a/com.example.note/2", "{}")]);
        let libraries = Arc::new(ScriptRegistry::new());
        libraries.replace(&stage.engine, &[("lib:sums".to_owned(), LIBRARY.to_owned())]).await;
        let observer = Arc::new(Runs { profiles, ended: Mutex::default() });
        let services = stage.services.with_scripts(libraries).with_observer(observer.clone());
        let script = stage.engine.compile(Trigger::parse(TRIGGER).unwrap(), source).await;
        let _ = stage.engine.run(&script, Invocation::default(), &services).await;
        runs.push(observer.ended.lock().unwrap().pop().unwrap());
    }
    let (with, without) = (runs.pop().unwrap(), runs.pop().unwrap());
    let kind = |run: &EndedRun| run.failure.as_ref().map(|failure| (failure.kind, failure.line));
    assert_eq!(kind(&with), kind(&without), "{source}");
    assert_eq!(with.instructions, without.instructions, "{source}");
    assert!(without.profile.is_none());
    let profile = with.profile.clone().unwrap();
    assert_eq!(profile.total().instructions, u64::from(with.instructions.unwrap()), "{source}");
    (with, profile)
}

fn instructions_of(profile: &RunProfile, line: u32) -> u64 {
    let lines = profile.lines.iter().filter(|found| found.file == TRIGGER && found.line == line);
    lines.map(|found| found.cost.instructions).sum()
}

/// The stack of the place with the most instructions, as `function:line`.
fn hottest(profile: &RunProfile) -> Vec<String> {
    let places = profile.places.iter().enumerate();
    let (hottest, _) = places.max_by_key(|(_, place)| place.cost.instructions).unwrap();
    let named = |at: &u32| {
        let place = &profile.places[*at as usize];
        format!("{}:{}", place.function, place.line)
    };
    profile.stack(u32::try_from(hottest).unwrap()).iter().map(named).collect()
}

#[tokio::test]
async fn a_profile_counts_each_construct_exactly() {
    let constructs = [
        "local n = 0 for i = 1, 1000 do n = n + i end return n",
        "local function f(n) if n == 0 then return 0 end return 1 + f(n - 1) end return f(500)",
        "local function f(n) if n == 0 then return 0 end return f(n - 1) end return f(5000)",
        "local co = coroutine.wrap(function() for i = 1, 50 do coroutine.yield(i) end end) for i = 1, 50 do co() end",
        "for i = 1, 50 do pcall(function() local x = nil + i end) end",
        "local t = setmetatable({}, { __index = function(_, k) return k * 2 end }) local n = 0 for i = 1, 50 do n = n + t[i] end",
        "local t = {} for i = 1, 200 do t[i] = (i * 7919) % 211 end table.sort(t, function(a, b) return a > b end)",
        "for i = 1, 2000 do local t = setmetatable({ tostring(i) }, { __gc = function() local x = 1 end }) end",
        "local s = string.gsub('abc', '%w', function(c) return c .. c end) return s",
        "return require('sums').sum(100)",
        "db.query({ collection = 'com.example.note' }) log('x') return json.encode({ 1, 2 })",
        "error({ status = 404 })",
        "while true do end",
        "local function f() return 1 + f() end return f()",
        "local s = {} for i = 1, 1000000 do s[i] = string.rep('x', 100000) .. i end",
        "local function count() return db.count('com.example.note') end return { parallel(count, function() error('x') end, count) }",
        "local function f() return db.count('com.example.note') end parallel(function() parallel(f, f) end, f, coroutine.yield)",
        "parallel(function() db.count('com.example.note') end, function() while true do end end)",
        "local co = coroutine.create(function() local t <close> = setmetatable({}, { __close = function() local x = 1 end }) coroutine.yield() end) coroutine.resume(co) coroutine.close(co)",
    ];
    for construct in constructs {
        profiled(&format!("function handle() {construct} end")).await;
    }
}

#[tokio::test]
async fn a_profile_tells_lines_and_callers() {
    let source = "local function inner(n)
    local sum = 0
    for i = 1, n do sum = sum + i end
    return sum
end
function handle()
    local few = inner(10)
    local many = inner(1000)
    return require('sums').sum(20)
end";
    let (_, profile) = profiled(source).await;
    assert_eq!(hottest(&profile), ["handle:8", "inner:3"]);
    assert!(instructions_of(&profile, 3) > 2_000 && instructions_of(&profile, 3) < 2_100);
    assert!(profile.lines.iter().any(|line| line.file == "lib:sums" && line.line == 4));
    let lines = [2, 3, 4, 5, 6, 7, 8, 9, 10];
    assert_eq!(profile.code[TRIGGER], lines, "an `end` makes the function");
    assert_eq!(profile.code["lib:sums"], [1, 2, 3, 4, 5, 6, 7]);
    let source = "local co = coroutine.wrap(function()
    for i = 1, 1000 do end
end)
function handle()
    co()
end";
    assert_eq!(hottest(&profiled(source).await.1), ["handle:5", "function:1:2"], "across a coroutine");
}

#[tokio::test]
async fn calls_of_the_host_are_counted_at_the_line_that_makes_them() {
    let source = "function handle()
    local page = db.query({ collection = 'com.example.note' })
    for _ = 1, 3 do
        db.count('com.example.note')
    end
end";
    let (_, profile) = profiled(source).await;
    let cost = |line| {
        let found = profile.lines.iter().find(|found| found.file == TRIGGER && found.line == line).unwrap();
        (found.cost.host_calls, found.cost.rows)
    };
    assert_eq!((cost(2), cost(4)), ((1, 2), (3, 0)));
    assert!(profile.total().host_us > 0);
}

#[tokio::test]
async fn the_places_of_a_profile_are_bounded() {
    let deep = "local function f(n) if n == 0 then return 0 end
        return 1 + f(n - 1)
    end
    function handle() return f(150) end";
    let (_, profile) = profiled(deep).await;
    assert!(
        profile.places.len() < 400 && profile.places.iter().any(|place| place.function.starts_with("(calls"))
    );
    // Each line of these functions calls each line of the next.
    let mut wide = "local f0 = function() local x = 1 end\n".to_owned();
    for level in 1..5 {
        let calls = format!("f{}()\n", level - 1).repeat(12);
        writeln!(wide, "local f{level} = function()\n{calls} end").unwrap();
    }
    let (run, profile) = profiled(&format!("{wide} function handle() f4() end")).await;
    assert!(run.failure.is_none() && profile.places.len() <= 8192 && profile.places.len() > 5000);
}

#[tokio::test]
async fn a_run_that_the_limit_ends_has_a_profile() {
    let (run, profile) = profiled("function handle()\n while true do\n end\nend").await;
    assert_eq!(run.failure.unwrap().kind, FailureKind::Limit);
    assert_eq!((run.instructions, hottest(&profile)), (Some(1_000_000), vec!["handle:2".to_owned()]));
}

#[tokio::test]
async fn sampled_runs_are_summed_by_line() {
    let stage = Stage::set().await;
    let config = EngineConfig { profile_sample: 1, ..EngineConfig::new(super::cache_dir()) };
    let engine = Engine::open(config).await.unwrap();
    let source = "function handle()\n  local sum = 0\n  for i = 1, 10 do sum = sum + i end\n  return { sum = sum }\nend";
    let script = engine.compile(Trigger::parse(TRIGGER).unwrap(), source).await;
    // A run that asks for a profile waits until the guest of profiles is loaded.
    let observer = Arc::new(Runs { profiles: true, ended: Mutex::default() });
    let observed = stage.services.clone().with_observer(observer.clone());
    engine.run(&script, Invocation::default(), &observed).await.unwrap();
    let one = u64::from(observer.ended.lock().unwrap()[0].instructions.unwrap());
    let before = script.sampled_profile().map_or(0, |sampled| sampled.runs);
    for _ in 0..3 {
        engine.run(&script, Invocation::default(), &stage.services).await.unwrap();
    }
    let sampled = script.sampled_profile().unwrap();
    assert_eq!(sampled.runs, before + 3);
    assert_eq!(sampled.profile.total().instructions, sampled.runs * one);
    assert_eq!(hottest(&sampled.profile), ["handle:3"]);
    let run = observer.ended.lock().unwrap()[0].profile.clone().unwrap();
    for line in 1..=4 {
        let (sum, once) = (instructions_of(&sampled.profile, line), instructions_of(&run, line));
        assert_eq!(sum, sampled.runs * once, "line {line}");
    }

    // Nothing is sampled unless it is asked for.
    let script = stage.engine.compile(Trigger::parse(TRIGGER).unwrap(), source).await;
    stage.engine.run(&script, Invocation::default(), &stage.services).await.unwrap();
    assert!(script.sampled_profile().is_none());
}

#[tokio::test]
async fn a_profile_assigns_calls_at_the_same_time_to_their_lines() {
    let source = "function handle()
    local a, b = parallel(
        function() return db.query({ collection = 'com.example.note' }).records end,
        function()
            db.count('com.example.note')
            return db.count('com.example.note')
        end)
    return { #a, b }
end";
    let (_, profile) = profiled(source).await;
    let host = |line: u32| {
        let lines = profile.lines.iter().filter(|found| found.file == TRIGGER && found.line == line);
        lines.fold((0, 0), |(calls, rows), found| (calls + found.cost.host_calls, rows + found.cost.rows))
    };
    assert_eq!([3, 5, 6, 2].map(host), [(1, 2), (1, 0), (1, 0), (0, 0)]);
}
