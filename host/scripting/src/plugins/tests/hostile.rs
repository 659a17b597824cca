//! The attempts of a hostile plugin while it runs, and their ends. The attempts on the network are in `http`, those on
//! values in `values`, those on other calls in `isolation`, malformed files in `modules`, bad results in `accounts`.
//!
//! | Attempt | End |
//! |---|---|
//! | 1 loops for ever in a call | failed after 5 s of guest time |
//! | 2 loops in `describe` | the same; nothing is installed |
//! | 3 loops in a start function | the same |
//! | 4 traps, 5 panics | failed |
//! | 6 grows its memory without end | refused at 64 MiB; the plugin goes on |
//! | 7 allocates without end | failed: needs more than 64 MiB |
//! | 8 grows its table without end | refused at 100,000 entries |
//! | 9 recurses without end | failed: stack overflow, or out of bounds if its stack is in its memory |
//! | 10 exits through WASI | failed |
//! | 11 floods the log, 12 prints 16 MiB | bounded for each call, and for each second |
//! | 13 logs its secrets and tokens | their names are shown instead |
//! | 14 floods its values | quota, in the database |
//! | 15 reads values of another plugin, account or sign-in | there are none |
//! | 16 sends 51 requests, 17 bodies of 11 MiB | quota; too large |
//! | 18 follows endless redirects | refused after 5 |
//! | 19 calls an undeclared host, 20 by a redirect | forbidden |
//! | 21 calls internal addresses | forbidden, also when the whole network is granted |
//! | 22 sends a method that was not granted | forbidden |
//! | 23 sets `Host` and framing headers | refused |
//! | 24 draws 4 GiB of randomness, also from WASI | failed |
//! | 25 returns 60 MiB, 26 broken UTF-8 | failed |
//! | 27 returns text that is no JSON, 28 a million arrays in each other | a fault |
//! | 29 reads files, environment and arguments | there are none |
//! | 30 sets a timer of an hour | failed at once |
//! | 31 opens timers without end | failed |
//! | 32 uses the network while it is described | refused |
//! | 33 signs for a repo that is not the account's | forbidden |
//! | 34 returns pages of 1,001 items; of 20 MB | too large; failed |
//! | 35 traps three times in a row | paused, unless only one of several tenants saw it |
//! | 36 calls without end from one client | two run, the others wait; other clients are served |
//! | 37 calls a capability that was not granted | refused before it runs |

use std::sync::Arc;

use serde_json::{Value, json};

use super::{ALICE, Stage, built, engine, plugin, scope};
use crate::plugins::calls::{CallError, Failure, FailureCause, FaultCode, Linker as _, RunContext};
use crate::plugins::{PluginStatus, limits};
use belvedere_web::fair_share::Tenant;

/// The hostile plugin's module with another behaviour of `describe`.
pub(super) fn describing(mode: &str) -> Vec<u8> {
    const HONEST: &[u8] = b"describe=honest---------";
    let mut module = built("hostile").0;
    let at = module.windows(HONEST.len()).position(|bytes| bytes == HONEST).expect("the plugin has the word");
    let text = format!("{:-<24}", format!("describe={mode}"));
    module[at..at + HONEST.len()].copy_from_slice(text.as_bytes());
    module
}

#[tokio::test]
async fn a_call_that_does_not_end_is_ended() {
    let stage = Stage::set().await;
    let started = std::time::Instant::now();
    let text = stage.failure("hang", Value::Null).await;
    assert_eq!(text, "computed for more than 5s");
    assert!(started.elapsed() >= limits::GUEST_TIME);
    stage.works().await;
}

#[tokio::test]
async fn describe_is_within_the_limits_and_without_capabilities() {
    let stage = Stage::set().await;
    for (mode, expected) in [
        ("hang", "computed for more than 5s"),
        ("trap", "unreachable"),
        ("network", "unreachable"),
        ("schema", "config-schema is not JSON"),
    ] {
        let component = engine().await.load(&describing(mode)).await.unwrap();
        match stage.calls.describe(&component).await {
            Err(CallError::Failed(Failure { text, .. })) => {
                assert!(text.contains(expected), "{mode}: {text}");
            }
            other => panic!("{mode}: {other:?}"),
        }
    }
    for mode in ["id", "version"] {
        let component = engine().await.load(&describing(mode)).await.unwrap();
        let info = stage.calls.describe(&component).await.unwrap();
        assert!(info.id == "lie" || info.version == "9.9.9", "{info:?}");
    }
}

#[tokio::test]
async fn traps_and_exits_are_failures_of_the_call() {
    let stage = Stage::set().await;
    for (name, arg, expected) in [
        ("trap", Value::Null, "unreachable"),
        ("panic", Value::Null, "unreachable"),
        // Its stack lies in its memory.
        ("stack", Value::Null, "out of bounds"),
        ("allocate", Value::Null, "needs more than 64 MiB"),
        ("exit", Value::Null, "exited with status 0"),
        ("random", Value::Null, "random bytes"),
        ("wasi_random", json!(1_u64 << 40), "exceeds limit"),
        ("timers", json!(limits::RESOURCES + 1), "no free keys"),
        ("broken_text", Value::Null, "utf-8"),
        ("big", json!(limits::HANDED_OVER_BYTES + 1), "fuel"),
    ] {
        let text = stage.failure(name, arg).await;
        assert!(text.to_lowercase().contains(&expected.to_lowercase()), "{name}: {text}");
    }
    for (name, arg, expected) in [
        ("not_json", Value::Null, "not JSON"),
        ("deep_json", Value::Null, "EOF while parsing a list"),
        ("big", json!(limits::RESULT_BYTES + 1), "larger than"),
    ] {
        let (code, text) = stage.fault(name, arg).await;
        assert!(code == FaultCode::Upstream && text.contains(expected), "{name}: {text}");
    }
    let pages = stage.act("grow", Value::Null).await.unwrap();
    assert!(pages.as_u64().unwrap() <= (limits::LINEAR_MEMORY >> 16) as u64, "{pages}");
    stage.works().await;
}

#[tokio::test]
async fn failures_are_events_with_their_cause() {
    let stage = Stage::set().await;
    for (name, arg, cause) in [
        ("trap", Value::Null, FailureCause::Unreachable),
        ("stack", Value::Null, FailureCause::Trap),
        ("allocate", Value::Null, FailureCause::Memory),
        ("exit", Value::Null, FailureCause::Exit),
        ("wasi_random", json!(1_u64 << 40), FailureCause::Host),
        ("big", json!(limits::HANDED_OVER_BYTES + 1), FailureCause::Output),
        ("hang", Value::Null, FailureCause::GuestTime),
    ] {
        let failed = stage.act(name, arg).await;
        stage.calls.resume("hostile");
        assert!(
            matches!(&failed, Err(CallError::Failed(failure)) if failure.cause == cause),
            "{name}: {failed:?}"
        );
        let Err(CallError::Failed(Failure { text, .. })) = failed else { unreachable!() };
        let detail = json!({"interface": "callable", "cause": cause.as_str(), "error": text}).to_string();
        let events = stage.events("plugin.failed").await;
        let event = events.iter().find(|event| event.detail == detail);
        let event = event.unwrap_or_else(|| panic!("{detail} is not in {events:?}"));
        assert_eq!((event.subject.as_deref(), event.severity.as_str()), (Some("hostile"), "warn"));
    }
}

#[tokio::test]
async fn secrets_are_hidden_also_in_calls_that_do_not_read_them() {
    let stage = Stage::set().await;
    let fields = json!({"s3cret-value": "s3cret-value"}).to_string();
    stage.act("log", json!({"text": "it is s3cret-value", "fields": fields, "level": "info"})).await.unwrap();
    stage.act("print", json!("s3cret-value\n")).await.unwrap();
    assert_eq!(stage.fault("fault", json!("not s3cret-value")).await.1, "not [secret]");
    let lines = stage.events("plugin.log").await;
    let details: Vec<Value> = lines.iter().map(|line| serde_json::from_str(&line.detail).unwrap()).collect();
    let fields = json!({"[secret]": "[secret]"});
    for expected in [
        json!({"level": "info", "message": "it is [secret]", "fields": fields}),
        json!({"level": "info", "message": "[secret]"}),
    ] {
        assert!(details.contains(&expected), "{expected}: {details:?}");
    }
}

#[tokio::test]
async fn a_failed_call_beyond_the_plugins_share_writes_no_line_and_no_event() {
    let stage = Stage::set().await;
    let lines = tempfile::NamedTempFile::new().unwrap();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_ansi(false);
    let _guard =
        tracing::subscriber::set_default(subscriber.with_writer(Arc::new(lines.reopen().unwrap())).finish());
    let failures = async || {
        stage.failure("trap", Value::Null).await;
        let lines = std::fs::read_to_string(lines.path()).unwrap();
        (lines.matches("a call of a plugin failed").count(), stage.events("plugin.failed").await.len())
    };
    assert_eq!(failures().await, (1, 1));
    for _ in 0..4 {
        stage.act("log", json!({"lines": 100, "bytes": 10_000})).await.unwrap();
    }
    assert_eq!(failures().await, (1, 1));
}

#[tokio::test]
async fn timers_are_short() {
    let stage = Stage::set().await;
    assert_eq!(stage.failure("sleep", Value::Null).await, "set timers for more than 5s in all");
    assert_eq!(
        stage.failure("nap", json!(limits::TIMERS.as_secs() + 1)).await,
        "set timers for more than 5s in all"
    );
    tokio::time::pause();
    assert_eq!(stage.act("nap", json!(limits::TIMERS.as_secs())).await.unwrap(), json!(true));
    for _ in 0..limits::TRAPS {
        assert!(stage.act("sleep", Value::Null).await.is_err());
    }
    assert!(matches!(stage.act("echo", Value::Null).await, Err(CallError::Paused)));
}

#[tokio::test]
async fn a_program_finds_no_files_environment_or_arguments() {
    let stage = Stage::set().await;
    assert_eq!(stage.act("environment", Value::Null).await.unwrap(), json!([[], [], 0]));
}

#[tokio::test]
async fn logs_are_bounded_and_show_no_secrets() {
    let stage = Stage::set().await;
    let fields = json!({"n": 1}).to_string();
    stage.act("log", json!({"text": "hello", "fields": fields, "level": "warn"})).await.unwrap();
    stage.act("print", json!("one\ntwo\n")).await.unwrap();
    assert_eq!(stage.act("secret", json!("API_KEY")).await.unwrap(), json!("s3cret-value"));
    assert_eq!(stage.act("secret", json!("OTHER")).await.unwrap(), Value::Null);
    let tokens = crate::plugins::calls::Tokens {
        access: "the-access-token".to_owned(),
        refresh: Some("the-refresh-token".to_owned()),
        token_type: "Bearer".to_owned(),
        scope: None,
        expiry: crate::plugins::calls::Expiry::Never,
    };
    // In parts that are too short to be hidden as texts of the configuration.
    let parts = json!(["the-", "acces", "s-", "token", ", ", "the-", "refre", "sh-", "token"]);
    let config = json!({"do": "log", "with": {"parts": parts, "in_fields": true}});
    stage.calls.of(&stage.plugin).profile(&scope(), &tokens, &config.to_string()).await.unwrap();
    let lines = stage.events("plugin.log").await;
    let details: Vec<Value> = lines.iter().map(|line| serde_json::from_str(&line.detail).unwrap()).collect();
    let hidden = "[access token], [refresh token]";
    for expected in [
        json!({"level": "warn", "message": "hello", "fields": {"n": 1}}),
        json!({"level": "info", "message": "one"}),
        json!({"level": "info", "message": "two"}),
        json!({"level": "info", "message": hidden, "fields": {"t": hidden}}),
    ] {
        assert!(details.contains(&expected), "{expected}: {details:?}");
    }
    assert!(lines.iter().all(|line| line.subject.as_deref() == Some("hostile")));
    assert_eq!(lines.iter().filter(|line| line.severity.as_str() == "warn").count(), 1);

    // A flood: of a call, then of all calls together.
    stage.act("log", json!({"lines": 100_000, "bytes": 10})).await.unwrap();
    assert_eq!(stage.act("print_flood", Value::Null).await.unwrap(), json!(4096));
    let of_a_call = stage.events("plugin.log").await.len() - lines.len();
    assert!((102..=130).contains(&of_a_call), "{of_a_call}");
    for _ in 0..10 {
        stage.act("log", json!({"lines": 100, "bytes": 10_000})).await.unwrap();
    }
    let lines = stage.events("plugin.log").await;
    assert!(lines.iter().all(|line| line.detail.len() < limits::LOG_LINE_BYTES + 200));
    assert!(lines.len() < 600, "{}", lines.len());
    stage.clock.set(super::NOW.plus_seconds(60));
    stage.calls.report_dropped_lines(stage.clock.now());
    let last = stage.events("plugin.log").await.pop().unwrap();
    assert!(last.detail.contains("lines were dropped"), "{}", last.detail);
}

#[tokio::test]
async fn signatures_are_for_the_account_of_the_call_only() {
    let stage = Stage::set().await;
    let record = json!({"$type": "com.example.item", "n": 1});
    let signed = stage.act("sign", json!([record, ALICE])).await.unwrap();
    let signature = signed["signatures"][0].clone();
    assert_eq!(signature["$type"], "com.example.sig");
    assert_eq!(stage.act("verify", json!([record, signature, ALICE])).await.unwrap(), json!(true));
    assert_eq!(stage.act("verify", json!([record, signature, "did:plc:bob"])).await.unwrap(), json!(false));
    assert_eq!(stage.act("verify", json!([record, "\0", ALICE])).await.unwrap(), json!(false));
    let again = stage.act("sign", json!([signed, ALICE])).await.unwrap();
    assert_eq!(again["signatures"].as_array().unwrap().len(), 2);
    let code = async |arg: Value| stage.fault("sign", arg).await.0;
    assert_eq!(code(json!([record, "did:plc:bob"])).await, FaultCode::Forbidden);
    let unsigned = json!({"$type": "com.example.item", "signatures": 1});
    assert_eq!(code(json!([unsigned, ALICE])).await, FaultCode::BadInput);
    for other in [json!({"$type": "com.example.other"}), json!({"n": 1})] {
        assert_eq!(code(json!([other, ALICE])).await, FaultCode::Forbidden, "{other}");
    }
    assert_eq!(code(json!(["no object", ALICE])).await, FaultCode::InvalidRecord);
    assert_eq!(code(json!([{"x": 1.5}, ALICE])).await, FaultCode::InvalidRecord);
    let nobody = crate::plugins::calls::CallScope { did: None, ..scope() };
    match stage.act_for(&nobody, "sign", json!([record, ALICE])).await {
        Err(CallError::Fault(fault)) => assert_eq!(fault.code, FaultCode::NotLinked),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_library_without_collections_signs_any_record() {
    let library =
        ["network:request?host=localhost", "records:read?collection=com.example.game", "attest:sign"];
    let stage = Stage::set().await.granted(&[&library[..], &["secrets:read", "kv:use"]].concat());
    let record = json!({"$type": "com.example.other", "n": 1});
    assert!(stage.act("sign", json!([record, ALICE])).await.is_ok());
}

#[tokio::test]
async fn a_plugin_that_traps_three_times_in_a_row_is_paused() {
    let stage = Stage::set().await;
    let trap = async || stage.act("trap", Value::Null).await;
    for _ in 1..limits::TRAPS {
        assert!(matches!(trap().await, Err(CallError::Failed(_))));
    }
    // A fault is an answer, and ends the row.
    assert!(matches!(stage.act("fault", json!("no")).await, Err(CallError::Fault(_))));
    for _ in 0..limits::TRAPS {
        assert!(matches!(trap().await, Err(CallError::Failed(_))));
    }
    assert!(matches!(stage.act("echo", Value::Null).await, Err(CallError::Paused)));
    let events = stage.events("plugin.paused").await;
    assert_eq!(events.len(), 1);
    let detail: Value = serde_json::from_str(&events[0].detail).unwrap();
    assert_eq!((events[0].subject.as_deref(), &detail["traps"]), (Some("hostile"), &json!(limits::TRAPS)));
    assert!(detail["error"].as_str().unwrap().contains("unreachable"));
    stage.calls.resume("hostile");
    stage.works().await;
    // One tenant among several does not pause it.
    let other = crate::plugins::calls::CallScope { tenant: Tenant::client("b"), ..scope() };
    stage.act_for(&other, "echo", Value::Null).await.unwrap();
    for _ in 0..2 * limits::TRAPS {
        assert!(matches!(trap().await, Err(CallError::Failed(_))));
    }
    stage.works().await;
    stage.calls.resume("hostile");
    // Another version of it does not count towards its row.
    for _ in 0..limits::TRAPS {
        assert!(matches!(trap().await, Err(CallError::Failed(_))));
    }
    let component = engine().await.load(&describing("other")).await.unwrap();
    let other = plugin(component, super::all_grants());
    let called = stage.calls.call_function(&other, &scope(), "echo", "[]", &RunContext::default()).await;
    assert!(called.is_ok(), "another version is not paused: {called:?}");
}

#[tokio::test]
async fn a_paused_plugin_is_not_called() {
    let mut stage = Stage::set().await;
    let paused = crate::plugins::LoadedPlugin {
        manifest: stage.plugin.manifest.clone(),
        grants: stage.plugin.grants.clone(),
        component: stage.plugin.component.clone(),
        status: PluginStatus::Paused,
        functions: Vec::new(),
    };
    stage.plugin = paused.into();
    assert!(matches!(stage.act("echo", Value::Null).await, Err(CallError::Paused)));
}

#[tokio::test]
async fn imports_that_were_not_granted_are_refused() {
    let stage = Stage::set().await.granted(&["kv:use", "secrets:read", "attest:sign"]);
    match stage.act("echo", Value::Null).await {
        Err(CallError::Failed(Failure { text, .. })) => {
            assert!(text.ends_with("did not grant: http, lookup"), "{text}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(stage.plugin.component.missing(&stage.plugin.grants), ["http", "lookup"]);
}
