//! Files that are not plugins, and those that only look like one.

use super::{EngineConfig, Stage, built, engine};
use crate::plugins::calls::{CallError, Failure};
use crate::plugins::{PluginEngine, limits};

/// The reason why a module is refused.
async fn refusal(module: &[u8]) -> String {
    engine().await.load(module).await.expect_err("it is no plugin").to_string()
}

fn text(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

/// A component that exports `describe`, with the body of its core module.
fn describing(body: &str) -> Vec<u8> {
    text(&format!(
        "(component
            (core module $m {body} (func (export \"get\") (result i32) i32.const 0))
            (core instance $i (instantiate $m))
            (func $get (result u32) (canon lift (core func $i \"get\")))
            (instance $d (export \"get\" (func $get)))
            (export \"belvedere:plugin/describe@1.0.0\" (instance $d)))"
    ))
}

/// A component that imports an instance without members.
fn importing(name: &str) -> Vec<u8> {
    text(&format!("(component (import \"{name}\" (instance)))"))
}

#[tokio::test]
async fn files_that_are_no_plugins_are_refused_with_the_reason() {
    let whole = built("hostile").0;
    let mut oversized = whole.clone();
    oversized.resize(limits::MODULE_BYTES + 1, 0);
    let two = "(memory 1) (memory 1)";
    let nested = (0..limits::NESTED_COMPONENTS)
        .fold("(component)".to_owned(), |inner, _| format!("(component {inner})"));
    for (module, expected) in [
        (Vec::new(), "empty"),
        (b"#!/bin/sh".to_vec(), "not WebAssembly"),
        (b"\0asm\x01\0\0\0".to_vec(), "core module"),
        (b"\0asm\x0d\0\x01\0".to_vec(), "another world"),
        (text("(module)"), "core module"),
        (oversized, "larger than 32 MiB"),
        (whole[..whole.len() / 2].to_vec(), "damaged"),
        (whole[..whole.len() - 1].to_vec(), "damaged"),
        (text("(component (instance $i) (export \"a:b/run@0.2.0\" (instance $i)))"), "another world"),
        (describing(two), "more than one memory"),
        (text(&nested), "nested"),
        (importing("wasi:sockets/tcp@0.2.0"), "wasi:sockets/tcp@0.2.0"),
        (importing("wasi:http/outgoing-handler@0.2.0"), "wasi:http"),
        (importing("wasi:random/random@0.3.0"), "wasi:random/random@0.3.0"),
        (importing("belvedere:plugin/root@1.0.0"), "belvedere:plugin/root"),
        (importing("belvedere:plugin/http@2.0.0"), "implements version 1"),
        (importing("belvedere:script/db"), "belvedere:script/db"),
    ] {
        let error = refusal(&module).await;
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[tokio::test]
async fn modules_beyond_the_pool_are_refused_when_they_are_loaded() {
    for (body, expected) in [
        ("(memory 1025)", "memory"),
        ("(table 200000 funcref)", "table"),
        (
            "(table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref)",
            "table",
        ),
        ("(memory i64 1)", "memory64"),
        ("(func (result i32) i32.const 0 i64.const 0)", "can't be compiled"),
    ] {
        let error = refusal(&describing(body)).await;
        assert!(error.contains(expected), "{body}: {error}");
    }
    let long =
        format!("(func {})", "(drop (i64.const 0x7fffffffffffffff))".repeat(limits::FUNCTION_BYTES / 11));
    assert!(refusal(&describing(&long)).await.contains("a function is larger"));
    for (locals, body, expected) in [
        (0, "(loop (br_if 0 (local.get 0)))".repeat(limits::LOOPS as usize + 1), "more than 1600 loops"),
        (
            0,
            format!("{}{}", "loop ".repeat(33), "end ".repeat(33)),
            "loops of a function are nested more than 32",
        ),
        (
            0,
            format!("{}{}", "block ".repeat(20_001), "end ".repeat(20_001)),
            "blocks of a function are nested more than 20000 deep",
        ),
        (1_001, "(if (local.get 0) (then (local.set 1 (i32.const 1))))".repeat(10_000), "10000 branches"),
        (126, "(loop (br_if 0 (local.get 0)))".repeat(1_599), "1599 loops, which are too many together"),
    ] {
        let locals = "i32 ".repeat(locals);
        let module = describing(&format!("(func (param i32) (local {locals}) {body})"));
        let error = refusal(&module).await;
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let many = "(func)".repeat(limits::FUNCTIONS as usize + 1);
    assert!(refusal(&describing(&many)).await.contains("functions"));
    // Two memories by two instances of one module.
    let twice = "(component (core module $m (memory 1) (func (export \"get\") (result i32) i32.const 0))
        (core instance $i (instantiate $m)) (core instance $j (instantiate $m))
        (func $get (result u32) (canon lift (core func $i \"get\")))
        (instance $d (export \"get\" (func $get)))
        (export \"belvedere:plugin/describe@1.0.0\" (instance $d)))";
    assert!(refusal(&text(twice)).await.contains("memor"));
}

#[tokio::test]
async fn start_functions_are_within_the_limits() {
    let stage = Stage::set().await;
    for (body, expected) in [
        ("(func $start (loop br 0)) (start $start)", "computed for more than 5s"),
        ("(func $start unreachable) (start $start)", "unreachable"),
        ("(func $start (call $start)) (start $start)", "stack overflow"),
        // Grows its table until it is refused, and traps if it got too far.
        (
            "(table $t 1 funcref)
             (func $start
                (loop (br_if 0 (i32.ne (table.grow $t (ref.null func) (i32.const 999)) (i32.const -1))))
                (if (i32.gt_u (table.size $t) (i32.const 100000)) (then unreachable)))
             (start $start)",
            "expected `record`",
        ),
    ] {
        let component = engine().await.load(&describing(body)).await.unwrap();
        match stage.calls.describe(&component).await {
            Err(CallError::Failed(Failure { text, .. })) => {
                assert!(text.contains(expected), "{expected}: {text}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_module_is_compiled_once_and_a_damaged_file_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let open = || PluginEngine::open(EngineConfig::in_this_process(&cache)).unwrap();
    let module = built("minimal").0;
    // The components are dropped: a file that is mapped must not be written to.
    let sha256 = open().load(&module).await.unwrap().sha256;
    let compiled: Vec<_> = std::fs::read_dir(&cache)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "cwasm"))
        .collect();
    let [file] = compiled.as_slice() else { panic!("{compiled:?}") };
    assert!(file.file_name().unwrap().to_string_lossy().contains(&sha256));
    let written = std::fs::metadata(file).unwrap().modified().unwrap();
    assert_eq!(open().load(&module).await.unwrap().sha256, sha256);
    assert_eq!(std::fs::metadata(file).unwrap().modified().unwrap(), written, "compiled again");
    std::fs::write(file, b"not machine code").unwrap();
    open().load(&module).await.unwrap();
    assert!(std::fs::metadata(file).unwrap().len() > 1_000);
}

#[tokio::test]
async fn requests_are_answered_while_a_module_compiles() {
    let stage = Stage::set().await;
    stage.works().await;
    let functions =
        "(func (param i32) (result i32) (i32.mul (local.get 0) (i32.add (local.get 0) (i32.const 7))))";
    let module = describing(&functions.repeat(100_000));
    let folder = tempfile::tempdir().unwrap();
    let engine = PluginEngine::open(EngineConfig::in_this_process(folder.path().join("cache"))).unwrap();
    let small = describing("");
    engine.load(&small).await.unwrap();
    let busy = engine.clone();
    let compiling = tokio::spawn(async move { busy.load(&module).await.map(drop) });
    tokio::task::yield_now().await;
    engine.load(&small).await.unwrap();
    assert!(!compiling.is_finished(), "a module in the cache does not wait for the compiler");
    // On this thread nothing else runs while it is busy.
    let mut calls = 0;
    while !compiling.is_finished() {
        let started = std::time::Instant::now();
        stage.works().await;
        assert!(started.elapsed() < std::time::Duration::from_secs(1), "{:?}", started.elapsed());
        calls += 1;
    }
    assert!(compiling.await.unwrap().is_ok() && calls > 10, "{calls} calls");
}
