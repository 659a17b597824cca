//! `require`.

use std::sync::Arc;

use super::{Stage, TRIGGER};
use crate::scripts::{FailureKind, Invocation, ScriptFailure, ScriptRegistry};
use belvedere_protocol::trigger::Trigger;
use serde_json::{Value, json};

/// Scripts that are stored, of which one is run or checked.
struct Stored {
    stage: Stage,
    registry: Arc<ScriptRegistry>,
}

impl Stored {
    async fn new(libraries: &[(&str, &str)]) -> Self {
        let mut stage = Stage::set().await;
        let registry = Arc::new(ScriptRegistry::new());
        let stored: Vec<_> =
            libraries.iter().map(|(name, source)| (format!("lib:{name}"), (*source).to_owned())).collect();
        registry.replace(&stage.engine, &stored).await;
        stage.services = stage.services.with_scripts(Arc::clone(&registry));
        Self { stage, registry }
    }

    async fn run(&self, source: &str) -> Result<Value, ScriptFailure> {
        let script = self.stage.engine.compile(Trigger::parse(TRIGGER).unwrap(), source).await;
        let outcome = self.stage.engine.run(&script, Invocation::default(), &self.stage.services).await?;
        Ok(serde_json::from_slice(&outcome.body).unwrap())
    }

    async fn check(&self, id: &str, source: &str) -> Result<(), ScriptFailure> {
        let trigger = Trigger::parse(id).unwrap();
        self.stage.engine.check(trigger, source, &self.registry.all()).await.map(drop)
    }
}

#[tokio::test]
async fn a_library_runs_once_and_gives_its_value() {
    let stored = Stored::new(&[
        ("count", "total = (total or 0) + 1 local n = 0 return { next = function() n = n + 1 return n end }"),
        ("pair", "local count = require('count') return { count = count, name = ... }"),
        ("nothing", "local x = 1"),
        ("no", "return false"),
        ("text", "return env.A .. (params and params.x or 'none')"),
    ])
    .await;
    let source = "local a, b = require('count'), require('pair')
        function handle()
            assert(a == b.count and require('count') == a)
            return { a.next(), b.count.next(), b.name, total, require('nothing'), require('no'), require('no') }
        end";
    assert_eq!(stored.run(source).await.unwrap(), json!([1, 2, "pair", 1, true, false, false]));
    // Computed names are looked up when the script runs, and a run shares nothing with the next one.
    let source = "function handle() local n = 'count' return { require(n).next(), require(n).next() } end";
    for _ in 0..2 {
        assert_eq!(stored.run(source).await.unwrap(), json!([1, 2]));
    }
    let source = "function handle() env = { A = 'a' } return require('text') end";
    assert_eq!(stored.run(source).await.unwrap(), json!("anone"));
}

#[tokio::test]
async fn errors_name_the_place_in_the_library_and_the_line_of_the_script() {
    let stored = Stored::new(&[
        ("broken", "local x = 1\nfunction f() return x.y.z end\nreturn f"),
        ("raises", "local x\nerror('no luck')"),
        ("loops", "return function()\n  while true do end\nend"),
        ("syntax", "return 1 +"),
        ("self", "local name = 'self'\nreturn require(name)"),
        ("handle", "function handle()\n  local x\n  return x.y\nend"),
    ])
    .await;
    for (body, line, message) in [
        ("\n local v = require('broken')() return v", 2, "lib:broken:2: attempt to index a number value"),
        ("\n\n return require('raises')", 3, "lib:raises:2: no luck"),
        ("\n require('loops')()", 2, "more than 1000000 instructions"),
        ("\n require('syntax')", 2, "lib:syntax:1: unexpected symbol near <eof>"),
        ("\n require('absent')", 2, "require: there is no library \"absent\""),
        ("\n require('self')", 2, "the library self has not returned"),
        ("\n pcall(require, 'raises') require('raises')", 2, "or has raised an error"),
        ("\n require(1)", 2, "require: name: string expected, got number"),
        ("\n local t = {} t[1] = t require(t)", 2, "require: name: string expected, got table"),
        ("\n coroutine.wrap(function() require('raises') end)()", 2, "lib:raises:2: no luck"),
        ("\n table.sort({ 1, 2 }, function() require('raises') end)", 2, "lib:raises:2: no luck"),
    ] {
        let failure = stored.run(&format!("function handle(){body} end")).await.unwrap_err();
        assert_eq!(failure.line, Some(line), "{body}: {failure}");
        assert!(failure.message.contains(message), "{body}: {failure}");
    }
    // A function of a library that is the script's has no line in the script.
    let failure = stored.run("require('handle')").await.unwrap_err();
    assert_eq!(failure.line, None, "{failure}");
    assert!(failure.message.starts_with("lib:handle:3: attempt to index"), "{failure}");
}

#[tokio::test]
async fn the_instructions_of_libraries_are_those_of_the_run() {
    let stored = Stored::new(&[("half", "for _ = 1, 240000 do local x = 1 end return 1")]).await;
    let twice =
        "local a = require('half') for _ = 1, 240000 do local x = 1 end function handle() return a end";
    assert_eq!(stored.run(twice).await.unwrap(), 1);
    let thrice = format!("for _ = 1, 240000 do local x = 1 end {twice}");
    assert_eq!(stored.run(&thrice).await.unwrap_err().kind, FailureKind::Limit);
}

#[tokio::test]
async fn missing_libraries_and_circles_are_found_when_a_script_is_saved() {
    let stored = Stored::new(&[
        ("a", "local b = require('b')"),
        ("b", "return 1"),
        ("gone", "\nlocal x = function() return require('lost') end"),
    ])
    .await;
    stored.check(TRIGGER, "local a = require('a') function handle() return a end").await.unwrap();
    stored.check("lib:c", "return require('a')").await.unwrap();
    for (id, source, line, message) in [
        (TRIGGER, "\nfunction handle() require('nope') end", Some(2), "get:2: there is no library \"nope\""),
        (TRIGGER, "require('gone') function handle() end", None, "lib:gone:2: there is no library \"lost\""),
        ("lib:b", "\nrequire('a')", None, "lib:a:1: libraries require each other in a circle: b → a → b"),
        ("lib:d", "\n\nreturn function() return require('d') end", Some(3), "in a circle: d → d"),
        (TRIGGER, "require('a')", None, "the script defines no function handle()"),
        ("lib:e", "local x = nil + 1", Some(1), "lib:e:1: attempt to perform arithmetic"),
        ("lib:e", "\u{1b}Lua", None, "not bytecode"),
    ] {
        let failure = stored.check(id, source).await.unwrap_err();
        assert_eq!(failure.line, line, "{source}: {failure}");
        assert!(failure.message.contains(message), "{source}: {failure}");
    }
}

#[tokio::test]
async fn users_of_a_library_are_found_through_others() {
    let stored = Stored::new(&[
        ("a", ""),
        ("b", "require('a')"),
        ("c", "require('b') require('b') xrpc.query('com.example.other')"),
        ("d", "require('e')"),
        ("e", "require('d')"),
    ])
    .await;
    let all = stored.registry.all();
    let users = |name| all.users_of(name).iter().map(|user| user.name.to_string()).collect::<Vec<_>>();
    assert_eq!(users("a"), ["lib:b", "lib:c"]);
    assert_eq!(users("c"), [""; 0]);
    assert_eq!(users("d"), ["lib:d", "lib:e"]);
    let script = stored.stage.engine.compile(Trigger::parse(TRIGGER).unwrap(), "require('c')").await;
    assert!(all.calls_any(&script, |method| method == "com.example.other"));
    let script = stored.stage.engine.compile(Trigger::parse(TRIGGER).unwrap(), "require('d')").await;
    assert!(!all.calls_any(&script, |_| true));
    assert!(stored.registry.tallies().is_empty(), "libraries are not run by themselves");
}

#[tokio::test]
async fn hostile_libraries_are_bounded() {
    let names: Vec<String> = (0..400).map(|n| format!("n{n}")).collect();
    let chain: Vec<String> = (1..=400).map(|n| format!("return require('n{n}')")).collect();
    let mut libraries: Vec<(&str, &str)> =
        names.iter().zip(&chain).map(|(name, source)| (&**name, &**source)).collect();
    let large = format!("local s = '{}' return #s", "x".repeat(200_000));
    libraries.extend([("n400", "return 1"), ("large", &*large)]);
    libraries.push(("memory", "local t = {} while true do t[#t + 1] = ('x'):rep(100000) .. #t end"));
    let stored = Stored::new(&libraries).await;
    let failure = stored.run("function handle() return require('n0') end").await.unwrap_err();
    assert!(failure.message.contains("overflow"), "{failure}");
    stored.check(TRIGGER, "function handle() return require('n0') end").await.unwrap();
    assert_eq!(stored.run("function handle() return require('large') end").await.unwrap(), 200_000);
    let failure = stored.run("function handle() return require('memory') end").await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Memory, "{failure}");
    // Names that are not there cost a call of the host each.
    let source = "function handle() for i = 1, 1e6 do pcall(require, 'x' .. i) end end";
    assert_eq!(stored.run(source).await.unwrap_err().kind, FailureKind::Limit);
}
