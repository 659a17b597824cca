//! Tests of `plugin.*` from the script's side: what is passed on, what comes back, and who pays.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::{EngineConfig, FailureKind, Invocation, Stage, account, of_client};
use crate::plugins::calls::{CallScope, FailureCause, Fault, FaultCode as PluginCode, RunContext};
use crate::scripts::failure::FaultCode;
use crate::scripts::services::{PluginCallError, PluginCalls};
use crate::scripts::{Engine, Lineage, limits};
use belvedere_protocol::atproto::Did;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_web::fair_share::Tenant;

/// Time for which the function `compute` keeps the processor, and the time between two points at which it yields.
const COMPUTES: Duration = Duration::from_millis(20);
const STEP: Duration = Duration::from_millis(1);

/// A plugin whose functions do what their names say. Records the calls.
#[derive(Default)]
struct FakePlugins(Mutex<Vec<Call>>);

#[derive(Clone)]
struct Call {
    plugin: String,
    function: String,
    args: String,
    scope: CallScope,
    run: RunContext,
}

impl PluginCalls for FakePlugins {
    fn call<'a>(
        &'a self,
        plugin: &'a str,
        function: &'a str,
        args: &'a str,
        scope: &'a CallScope,
        run: &'a RunContext,
    ) -> BoxFuture<'a, Result<String, PluginCallError>> {
        let (plugin, function, args) = (plugin.to_owned(), function.to_owned(), args.to_owned());
        let call = Call { plugin, function, args, scope: scope.clone(), run: run.clone() };
        self.0.lock().unwrap().push(call.clone());
        async move {
            if call.plugin == "missing" {
                let installed = ["markdown", "fake"].map(str::to_owned);
                return Err(PluginCallError::NoPlugin(installed.into_iter().collect()));
            }
            match call.function.as_str() {
                "echo" => Ok(call.args),
                "first" => {
                    let args: Vec<Value> = serde_json::from_str(&call.args).unwrap();
                    Ok(args[0].to_string())
                }
                "compute" => {
                    for _ in 0..COMPUTES.as_millis() / STEP.as_millis() {
                        let started = Instant::now();
                        while started.elapsed() < STEP {
                            std::hint::spin_loop();
                        }
                        tokio::task::yield_now().await;
                    }
                    Ok("null".to_owned())
                }
                "hang" => std::future::pending().await,
                "large" => Ok(format!("{:?}", "x".repeat(limits::PLUGIN_RESULT_BYTES))),
                "nonsense" => Ok("{\"a\":".to_owned()),
                "two_values" => Ok("1 2".to_owned()),
                "busy" => Err(PluginCallError::Busy),
                "paused" => Err(PluginCallError::Paused),
                "failed" => Err(PluginCallError::Failed(FailureCause::Memory)),
                "not_found" => Err(fault(PluginCode::NotFound, "no such game", Some(404))),
                "slow_down" => Err(fault(PluginCode::RateLimited, "wait", None)),
                "verbose" => Err(fault(PluginCode::Internal, &"é".repeat(1 << 20), None)),
                _ => Err(PluginCallError::NoFunction(["echo".to_owned()].into_iter().collect())),
            }
        }
        .boxed()
    }
}

fn fault(code: PluginCode, message: &str, status: Option<u16>) -> PluginCallError {
    PluginCallError::Fault(Fault { status, ..Fault::new(code, message) })
}

async fn stage() -> (Stage, Arc<FakePlugins>) {
    let mut stage = Stage::set().await;
    let plugins = Arc::new(FakePlugins::default());
    stage.services = stage.services.with_plugins(plugins.clone());
    (stage, plugins)
}

#[tokio::test]
async fn values_cross_unchanged() {
    let (stage, plugins) = stage().await;
    for (arguments, expected) in [
        ("", "[]"),
        ("nil", "[null]"),
        ("nil, 2, nil", "[null,2,null]"),
        ("1, 2.0, -0.5, 'é\\0', true, json.null, {}, toarray({})", "[1,2,-0.5,\"é\\u0000\",true,null,{},[]]"),
        ("{ a = toarray({ json.null }), b = { 1, 2 } }", "[{\"a\":[null],\"b\":[1,2]}]"),
    ] {
        let back = stage.eval(&format!("json.encode(plugin.fake.echo({arguments}))")).await;
        let sent = plugins.0.lock().unwrap().pop().unwrap().args;
        let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(parse(&sent), parse(expected), "{arguments}");
        assert_eq!(parse(back.as_str().unwrap()), parse(expected), "{arguments}");
    }
    let seen = stage
        .handle(
            "local first = plugin.fake.first
             local found = first({ none = json.null, list = { 7 }, half = 0.5, big = 9007199254740993 })
             return { found.none == json.null, math.type(found.list[1]), math.type(found.half), found.big,
                      first(json.null) == json.null, first('x'), first(false), json.encode(first(toarray({}))) }",
        )
        .await
        .unwrap();
    assert_eq!(seen, json!([true, "integer", "float", 9_007_199_254_740_993_i64, true, "x", false, "[]"]));
}

#[tokio::test]
async fn names_are_passed_on_as_they_are_written() {
    let (stage, plugins) = stage().await;
    stage
        .handle(
            "plugin['my-lib'].echo() plugin.my_lib.echo() plugin.my_lib['echo']()
             local lib = plugin.my_lib
             local echo = lib.echo
             return { echo(), plugin.my_lib.echo == echo }",
        )
        .await
        .unwrap();
    let calls = plugins.0.lock().unwrap();
    let names: Vec<_> = calls.iter().map(|call| (call.plugin.as_str(), call.function.as_str())).collect();
    assert_eq!(names, [("my-lib", "echo"), ("my_lib", "echo"), ("my_lib", "echo"), ("my_lib", "echo")]);
}

#[tokio::test]
async fn the_caller_comes_from_the_host() {
    let (stage, plugins) = stage().await;
    let caller = belvedere_instance::xrpc::Caller { did: account("did:plc:a").did, ..of_client("client-1") };
    let invocation = Invocation { caller: Some(&caller), ..Invocation::default() };
    let source = "function handle()
            caller_did = 'did:plc:b'
            return plugin.fake.echo({ caller = 'did:plc:b' })
        end";
    stage.run_with(source, invocation).await.unwrap();
    stage.handle("return plugin.fake.echo()").await.unwrap();
    let calls = plugins.0.lock().unwrap();
    let seen: Vec<_> = calls
        .iter()
        .map(|call| (call.scope.did.as_ref().map(Did::as_str), call.run.has_session, &call.scope.tenant))
        .collect();
    let client = Tenant::client("client-1");
    assert_eq!(seen, [(Some("did:plc:a"), false, &client), (None, false, &Tenant::Instance)]);
}

#[tokio::test]
async fn every_kind_of_script_may_call() {
    let (stage, _) = stage().await;
    for trigger in [
        "xrpc.query:com.example.get",
        "xrpc.procedure:com.example.do",
        "record.index:com.example.note",
        "labeler.apply:_actor",
        "job.run:nightly",
    ] {
        let source = "function handle() return plugin.fake.first({ html = 'x' }) end";
        let script = stage.engine.compile(Trigger::parse(trigger).unwrap(), source).await;
        let invocation = Invocation {
            job: (trigger == "job.run:nightly").then_some(("1", b"{}".as_slice())),
            ..Invocation::default()
        };
        let outcome = stage.engine.run(&script, invocation, &stage.services).await.unwrap();
        assert_eq!(&*outcome.body, br#"{"html":"x"}"#, "{trigger}");
    }
}

#[tokio::test]
async fn errors_are_objects_with_a_code() {
    let (stage, _) = stage().await;
    for (call, code, status, message) in [
        (
            "plugin.missing.f()",
            "bad-input",
            None,
            "plugin.missing.f: no plugin of this name has functions for scripts; installed are fake, markdown",
        ),
        (
            "plugin.fake.ecco()",
            "bad-input",
            None,
            "plugin.fake.ecco: the plugin has no such function; it has echo",
        ),
        (
            "plugin.fake.busy()",
            "unavailable",
            None,
            "too many calls of plugins are running, or no memory is free",
        ),
        ("plugin.fake.paused()", "unavailable", None, "the plugin is paused"),
        (
            "plugin.fake.failed()",
            "unavailable",
            None,
            "plugin.fake.failed: the plugin failed: it needs more memory than a call may have",
        ),
        ("plugin.fake.not_found()", "not-found", Some(404), "plugin.fake.not_found: no such game"),
        ("plugin.fake.slow_down()", "rate-limited", None, "plugin.fake.slow_down: wait"),
        ("plugin.fake.verbose()", "internal", None, "éé…"),
        ("plugin.fake.large()", "upstream", None, "the result: larger than 1048576 bytes of JSON"),
        ("plugin.fake.nonsense()", "upstream", None, "the result: EOF while parsing"),
        ("plugin.fake.two_values()", "upstream", None, "the result: trailing characters"),
        ("plugin.fake.echo(('x'):rep(4 << 20))", "bad-input", None, "arguments: larger than 262144 bytes"),
        ("plugin.fake.echo(0 / 0)", "bad-input", None, "plugins.call: args[1]"),
        ("plugin.fake.echo(1, { f = print })", "bad-input", None, "plugins.call: args[2].f: a function"),
        ("plugin.fake.echo('\\xff')", "bad-input", None, "a string is not valid UTF-8"),
        ("plugin.fake.echo({ 1, x = 2 })", "bad-input", None, "mixes an array with named fields"),
        ("plugin.fake.echo(cycle)", "bad-input", None, "nested more than 127 levels deep"),
        ("plugin.fake.echo(plugin.fake.echo)", "bad-input", None, "a function can't be JSON"),
        ("plugin['a\\0b\\n'].f()", "bad-input", None, "plugin.a\\0b\\n.f: the plugin has no such function"),
        ("plugin['\\xff'].f()", "bad-input", None, "plugins.call: plugin: not valid UTF-8"),
        ("plugin.a['\\xff']()", "bad-input", None, "plugins.call: function: not valid UTF-8"),
        ("plugin[('x'):rep(1 << 20)].f()", "bad-input", None, "plugin: the name is too long"),
        ("plugin.a[('x'):rep(1 << 20)]()", "bad-input", None, "plugin: the name is too long"),
        ("plugin[7].f()", "bad-input", None, "plugin: the name of a plugin must be a string, got number"),
        ("plugin.a[{}]()", "bad-input", None, "plugin: the name of a function must be a string, got table"),
    ] {
        let body = format!(
            "local cycle = {{}} cycle[1] = cycle
             local ok, e = pcall(function() return {call} end)
             return {{ ok, e.code, e.status or false, tostring(e), getmetatable(e) }}"
        );
        let seen = stage.handle(&body).await.unwrap_or_else(|failure| panic!("{call}: {failure}"));
        assert_eq!((&seen[0], &seen[1]), (&json!(false), &json!(code)), "{call}: {seen}");
        assert_eq!(seen[2], status.map_or(json!(false), |status: u16| json!(status)), "{call}: {seen}");
        let text = seen[3].as_str().unwrap();
        assert!(
            text.starts_with("xrpc.query:com.example.get:2: ") && text.contains(message),
            "{call}: {text}"
        );
        assert!(text.len() < 2 * limits::FAILURE_TEXT_BYTES && !text.contains("secret"), "{call}: {text}");
        assert_eq!(seen[4], json!(false), "{call}: the metatable of a fault is hidden");
    }
}

#[tokio::test]
async fn an_uncaught_error_says_whether_to_try_again() {
    let (stage, _) = stage().await;
    for (function, fault, retryable) in [
        ("paused", Some(FaultCode::Unavailable), true),
        ("failed", Some(FaultCode::Unavailable), true),
        ("slow_down", Some(FaultCode::Unavailable), true),
        ("not_found", None, false),
        ("none", Some(FaultCode::BadInput), false),
    ] {
        let failure = stage.handle(&format!("\nreturn plugin.fake.{function}()")).await.unwrap_err();
        assert_eq!((failure.fault, failure.is_retryable()), (fault, retryable), "{function}: {failure}");
        assert_eq!(failure.line, Some(2), "{function}: {failure}");
    }
}

#[tokio::test]
async fn a_script_is_saved_before_its_plugin_is_installed() {
    let stage = Stage::set().await;
    let trigger = || Trigger::parse(super::TRIGGER).unwrap();
    let source = "local render = plugin.markdown.render\nfunction handle() return render('x') end";
    stage.engine.check(trigger(), source, &Arc::default()).await.unwrap();
    let calling = "plugin.markdown.render('x')\nfunction handle() end";
    let refused = stage.engine.check(trigger(), calling, &Arc::default()).await.unwrap_err();
    assert!(refused.message.contains("plugin.markdown.render can't be used while"), "{refused}");
    // A server without plugins.
    let failure = stage.run(source).await.unwrap_err();
    assert_eq!(failure.fault, Some(FaultCode::Forbidden), "{failure}");
}

#[tokio::test]
async fn scripts_may_replace_functions_for_their_run_only() {
    let (stage, _) = stage().await;
    let source = "local echo = plugin.fake.echo
        table.pack, string.format, rawset, setmetatable, type = nil, nil, nil, nil, nil
        function handle()
          local seen = { echo(1)[1], plugin.other.echo(2)[1], getmetatable(plugin), getmetatable(plugin.fake) }
          plugin.fake.echo = function() return { 'mine' } end
          seen[5] = plugin.fake.echo()[1]
          plugin = nil
          return seen
        end";
    for _ in 0..2 {
        assert_eq!(stage.run(source).await.unwrap(), json!([1, 2, false, false, "mine"]));
    }
}

#[tokio::test]
async fn calls_and_their_json_are_bounded() {
    let (stage, plugins) = stage().await;
    let count = |calls: u32| format!("for i = 1, {calls} do plugin.fake.echo() end return true");
    assert_eq!(stage.handle(&count(limits::PLUGIN_CALLS)).await.unwrap(), json!(true));
    plugins.0.lock().unwrap().clear();
    let failure = stage.handle(&count(limits::PLUGIN_CALLS + 1)).await.unwrap_err();
    assert!(failure.message.contains("too many calls of plugins: a run may have 100"), "{failure}");
    assert_eq!(plugins.0.lock().unwrap().len(), limits::PLUGIN_CALLS as usize);

    // A job works through a collection.
    let script = stage.engine.compile(
        Trigger::parse("job.run:nightly").unwrap(),
        "function handle() for i = 1, 1000 do plugin.fake.echo() end end",
    );
    let invocation = Invocation { job: Some(("1", b"{}")), ..Invocation::default() };
    stage.engine.run(&script.await, invocation, &stage.services).await.unwrap();

    let failure = stage
        .handle(
            "local list, one = toarray({}), toarray({})
             for i = 1, 15000 do list[i] = one end
             for i = 1, 100 do plugin.fake.echo(list) end",
        )
        .await
        .unwrap_err();
    assert!(failure.message.contains("too much JSON handed over"), "{failure}");

    // Text whose JSON does not fit into the run's memory.
    plugins.0.lock().unwrap().clear();
    let failure = stage.handle("plugin.fake.echo(('x'):rep(8 << 20))").await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Memory, "{failure}");
    assert!(plugins.0.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_with_its_run() {
    let (stage, _) = stage().await;
    let source = "function handle() while true do pcall(plugin.fake.hang) end end";
    let ends_after = async |trigger: &str, lineage: Option<&Lineage>| {
        let script = stage.engine.compile(Trigger::parse(trigger).unwrap(), source).await;
        let started = tokio::time::Instant::now();
        let invocation = Invocation { lineage, ..Invocation::default() };
        let failure = stage.engine.run(&script, invocation, &stage.services).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Limit, "{failure}");
        started.elapsed()
    };
    assert_eq!(ends_after(super::TRIGGER, None).await, limits::RUN_TIME);
    assert_eq!(ends_after("record.index:com.example.note", None).await, limits::EVENT_TIME);
    // A called run has the deadline of its caller.
    let lineage = Lineage::root(TriggerKind::Query).nested();
    tokio::time::advance(limits::RUN_TIME / 2).await;
    assert_eq!(ends_after(super::TRIGGER, Some(&lineage)).await, limits::RUN_TIME / 2);
}

#[tokio::test]
async fn what_a_plugin_computes_is_charged_to_the_run() {
    let config = EngineConfig { client_fuel: 1_000_000, ..EngineConfig::new(super::cache_dir()) };
    let (mut stage, _) = stage().await;
    stage.engine = Engine::open(config).await.unwrap();
    let run = async |client: &str, source: &str| {
        let caller = of_client(client);
        let invocation = Invocation { caller: Some(&caller), ..Invocation::default() };
        stage.run_with(source, invocation).await
    };
    let source = "function handle() plugin.fake.compute() end";
    let usage = run("a", source).await.unwrap().usage;
    let least = COMPUTES.as_micros() as u64 * limits::PLUGIN_FUEL_PER_MICROSECOND;
    assert!(usage.fuel > least && usage.guest_time > COMPUTES, "{usage:?}");
    // The clock stands still, so the bucket is not refilled.
    let throttled = async |client| {
        let ended = run(client, "function handle() end").await;
        ended.is_err_and(|failure| failure.kind == FailureKind::Throttled)
    };
    let most = limits::FUEL / least + 1;
    for _ in 0..most {
        if throttled("a").await {
            break;
        }
        let _ = run("a", source).await;
    }
    assert!(throttled("a").await && !throttled("b").await);
}

#[tokio::test]
async fn a_run_ends_when_plugins_have_used_up_its_fuel() {
    let (stage, plugins) = stage().await;
    let failure = stage.handle("for _ = 1, 90 do pcall(plugin.fake.compute) end").await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Limit, "{failure}");
    let calls = plugins.0.lock().unwrap();
    let least = COMPUTES.as_micros() as u64 * limits::PLUGIN_FUEL_PER_MICROSECOND;
    assert!(calls.len() as u64 <= limits::FUEL / least + 1, "{}", calls.len());
    assert!(calls.iter().all(|call| call.run.read_only), "it is a query");
}
