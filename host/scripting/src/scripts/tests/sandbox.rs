//! Tests of the sandbox: what a script can't reach, and that no state outlives a run.

use serde_json::json;

use super::{END, Invocation, Stage, TRIGGER};
use crate::scripts::{Engine, EngineConfig, FailureKind, ScriptRegistry};
use belvedere_protocol::trigger::Trigger;

#[tokio::test]
async fn unsafe_globals_are_removed() {
    let stage = Stage::set().await;
    for gone in [
        "io",
        "debug",
        "package",
        "load",
        "loadstring",
        "loadfile",
        "dofile",
        "collectgarbage",
        "string.dump",
        "os.execute",
        "os.exit",
        "os.getenv",
        "os.remove",
        "os.rename",
        "os.setlocale",
        "os.tmpname",
        "('').dump",
        "host",
        "internal",
    ] {
        assert_eq!(stage.eval(&format!("{gone} == nil")).await, json!(true), "{gone}");
    }
    for kept in [
        "pcall",
        "xpcall",
        "error",
        "assert",
        "select",
        "next",
        "pairs",
        "ipairs",
        "tostring",
        "tonumber",
        "type",
        "rawget",
        "rawset",
        "rawequal",
        "rawlen",
        "getmetatable",
        "setmetatable",
        "print",
        "warn",
        "string.rep",
        "string.pack",
        "string.format",
        "table.concat",
        "table.unpack",
        "math.floor",
        "utf8.char",
        "coroutine.wrap",
        "os.time",
        "os.date",
        "os.difftime",
        "os.clock",
    ] {
        assert_eq!(stage.eval(&format!("type({kept})")).await, json!("function"), "{kept}");
    }
    assert_eq!(
        stage
            .handle("local n = {} for k in pairs(_G) do n[#n + 1] = k end table.sort(n) return n")
            .await
            .unwrap(),
        json!([
            "Record",
            "TID",
            "_G",
            "_VERSION",
            "assert",
            "atproto",
            "coroutine",
            "db",
            "env",
            "error",
            "getmetatable",
            "handle",
            "http",
            "ipairs",
            "jobs",
            "json",
            "labels",
            "linked_repos",
            "log",
            "math",
            "moderation",
            "next",
            "now",
            "os",
            "pairs",
            "parallel",
            "pcall",
            "plugin",
            "print",
            "rawequal",
            "rawget",
            "rawlen",
            "rawset",
            "require",
            "select",
            "setmetatable",
            "string",
            "table",
            "toarray",
            "tonumber",
            "tostring",
            "type",
            "utf8",
            "view",
            "warn",
            "xpcall",
            "xrpc"
        ])
    );
}

#[tokio::test]
async fn no_state_survives_a_run() {
    let stage = Stage::set().await;
    let source = "
        counter = (counter or 0) + 1
        local seen = { counter, string.rep ~= nil, ('x').len ~= nil, json.mark == nil, db.query ~= nil }
        function handle()
          string.rep = nil
          getmetatable('').__index = nil
          json.mark = true
          db.query = nil
          setmetatable(_G, { __index = function() return 1 end })
          return seen
        end";
    for _ in 0..3 {
        assert_eq!(stage.run(source).await.unwrap(), json!([1, true, true, true, true]));
    }
}

#[tokio::test]
async fn the_prelude_does_not_depend_on_what_scripts_overwrite() {
    let stage = Stage::set().await;
    let seen = stage
        .run(
            "type, tostring, tonumber, error, setmetatable = nil, nil, nil, nil, nil
             string.lower, string.format, table.concat, math.tointeger, os.date = nil, nil, nil, nil, nil
             function handle()
               print('x') warn('y') log('z')
               return { db.query{ collection = 'a.b.c', limit = '3', sortDirection = 'ASC' }.cursor, #TID(), now(),
                        TID.fromNumber(0) }
             end",
        )
        .await
        .unwrap();
    assert_eq!(seen, json!([END.cursor(), 13, "2023-11-14T22:13:20.123456Z", "2222222222222"]));
}

#[tokio::test]
async fn hidden_metatables_stay_hidden() {
    let stage = Stage::set().await;
    assert_eq!(
        stage
            .eval("{ getmetatable(toarray{}), getmetatable(json.null), getmetatable(TID), pcall(setmetatable, toarray{}, {}) }")
            .await,
        json!([false, false, false, false, "cannot change a protected metatable"])
    );
}

#[tokio::test]
async fn random_numbers_differ_between_runs() {
    let stage = Stage::set().await;
    let mut seen: Vec<_> = Vec::new();
    for _ in 0..5 {
        seen.push(stage.eval("math.random(0)").await.as_i64().unwrap());
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 5);
}

#[tokio::test]
async fn a_registry_swaps_scripts_and_keeps_broken_ones_failing() {
    let stage = Stage::set().await;
    let registry = ScriptRegistry::new();
    let (good, bad) = ("function handle() return 1 end", "function handle(");
    let stored = |id: &str, source: &str| (id.to_owned(), source.to_owned());
    let all = [stored(TRIGGER, good), stored("record.index:a.b", bad), stored("nonsense", good)];
    registry.replace(&stage.engine, &all).await;
    assert_eq!(registry.tallies().len(), 2);
    let before = registry.get(TRIGGER).unwrap();
    registry.replace(&stage.engine, &all[..1]).await;
    assert!(std::sync::Arc::ptr_eq(&before, &registry.get(TRIGGER).unwrap()), "compiled again");

    let broken = stage.engine.compile(Trigger::parse(TRIGGER).unwrap(), bad).await;
    registry.insert(broken);
    let broken = registry.get(TRIGGER).unwrap();
    let failure = stage.engine.run(&broken, Invocation::default(), &stage.services).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Syntax);
    registry.remove(TRIGGER);
    assert!(registry.get(TRIGGER).is_none() && registry.tallies().is_empty());
}

#[tokio::test]
async fn the_second_start_uses_the_cached_guest() {
    let folder = tempfile::tempdir().unwrap();
    let made = crate::scripts::prepare(folder.path()).await.unwrap();
    let written = std::fs::metadata(&made).unwrap().modified().unwrap();
    let started = std::time::Instant::now();
    Engine::open(EngineConfig::new(folder.path())).await.unwrap();
    assert!(started.elapsed() < std::time::Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(std::fs::metadata(&made).unwrap().modified().unwrap(), written, "made again");
    // A damaged image is made again.
    std::fs::write(&made, b"not machine code").unwrap();
    Engine::open(EngineConfig::new(folder.path())).await.unwrap();
    assert!(std::fs::metadata(&made).unwrap().len() > 1000);
}
