//! The memory of calls, of the pool that they share with the runs of scripts.

use serde_json::{Value, json};

use super::{Stage, engine, scope};
use crate::plugins::calls::{CallError, RunContext};
use crate::plugins::limits;
use belvedere_standins::trickle::Trickle;
use belvedere_wasm::sandbox::{MemoryGroup, MemoryPool, RunMemory, WhenFull};
use belvedere_web::fair_share::Tenant;

const MIB: usize = 1 << 20;

async fn memory() -> MemoryPool {
    engine().await.memory().clone()
}

/// Runs of two other tenants, which leave so many MiB of the common part, and no reserve.
async fn fill_all_but(memory: &MemoryPool, mib: usize) -> Vec<RunMemory> {
    let mut runs = Vec::new();
    for (tenant, last) in [("other", 32), ("another", 32 - mib)] {
        let (of_common, of_reserves) = (vec![32; 15].into_iter().chain([last]), vec![32; 8]);
        for mib in of_common.chain(of_reserves) {
            let run = RunMemory::new(memory, Tenant::client(tenant), MemoryGroup::default());
            run.grow(mib * MIB).await.unwrap();
            runs.push(run);
        }
    }
    runs
}

#[tokio::test]
async fn a_call_without_memory_is_busy_and_gives_back_what_it_took() {
    let (stage, memory) = (Stage::set().await, memory().await);
    let others = fill_all_but(&memory, 16).await;
    let before = memory.used();
    for attempt in ["allocate", "grow"] {
        assert!(matches!(stage.act(attempt, Value::Null).await, Err(CallError::Busy)), "{attempt}");
        assert_eq!(memory.used(), before, "{attempt}");
    }
    stage.works().await;
    drop(others);
    assert_eq!(stage.failure("allocate", Value::Null).await, "needs more than 64 MiB of memory");
}

#[tokio::test]
async fn a_call_begins_with_what_the_call_before_it_needed() {
    let (stage, memory) = (Stage::set().await, memory().await);
    // It does not wait, so that a test of what is not there takes no time.
    let run = RunContext { memory: MemoryGroup::new(WhenFull::Refuse), ..RunContext::default() };
    let keep = async |key: &str| {
        let args = json!([["plugin", key, "x"]]).to_string();
        stage.calls.call_function(&stage.plugin, &scope(), "kv_set", &args, &run).await
    };
    let kept = async |key: &str| stage.act("kv_get", json!(["plugin", key])).await.unwrap();
    let room = limits::EXPECTED_MEMORY / MIB - 1;

    stage.act("echo", Value::Null).await.unwrap();
    let others = fill_all_but(&memory, room).await;
    let before = memory.used();
    assert!(keep("small").await.is_ok(), "the call before it needed little");
    assert_eq!(memory.used(), before);
    drop(others);

    stage.act("grow", Value::Null).await.unwrap();
    let others = fill_all_but(&memory, room).await;
    let before = memory.used();
    // There is enough for the call, but not for one like that before it.
    assert!(matches!(keep("large").await, Err(CallError::Busy)));
    assert_eq!(memory.used(), before);
    drop(others);
    assert_eq!((kept("small").await, kept("large").await), (json!("x"), Value::Null));
    assert_eq!(memory.used(), 0);
}

#[tokio::test]
async fn a_call_uses_what_it_began_with_and_gives_back_all_of_it() {
    let (stage, memory) = (Stage::set().await, memory().await);
    let mut trickle = Trickle::start(limits::HTTP_BODY_BYTES).await;
    let url = json!({"url": format!("http://localhost:{}/", trickle.address().port())});
    for (before, expected) in
        [("grow", limits::EXPECTED_MEMORY..limits::EXPECTED_MEMORY + 1), ("echo", 1..4 * MIB)]
    {
        stage.act(before, Value::Null).await.unwrap();
        assert_eq!(memory.used(), 0, "after {before}");
        // The instance is smaller than what was taken, or has just grown by it.
        let call = stage.act("http", url.clone());
        let uses = async {
            trickle.requested().await;
            let used = memory.used();
            assert!(expected.contains(&used), "after {before} a call has {used} bytes");
        };
        tokio::select! {
            ended = call => panic!("{ended:?}"),
            () = uses => {}
        }
        assert_eq!(memory.used(), 0, "the call was dropped");
    }
}

#[tokio::test]
async fn a_response_takes_memory_as_it_arrives() {
    let (stage, memory) = (Stage::set().await, memory().await);
    let mut trickle = Trickle::start(limits::HTTP_BODY_BYTES).await;
    let call = stage.act("http", json!({"url": format!("http://localhost:{}/", trickle.address().port())}));
    let trickles = async {
        trickle.requested().await;
        let before = memory.used();
        trickle.send(MIB).await;
        memory.until_used(before + MIB).await;
        let held = memory.used() - before;
        assert!(held < 2 * MIB, "{held} bytes for a MiB that has arrived");
        trickle.end();
    };
    let (ended, ()) = tokio::join!(call, trickles);
    assert!(matches!(ended, Err(CallError::Fault(_))), "{ended:?}");
    assert_eq!(memory.used(), 0);
}
