use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use super::*;
use crate::trigger::TriggerKind;

const MIB: usize = 1 << 20;

/// A quarter of a reserve is what a tenant may have of the common part.
fn small() -> ScriptMemory {
    ScriptMemory::new(limits::LINEAR_MEMORY * 3 / 2)
}

fn run(memory: &ScriptMemory, tenant: &str) -> RunMemory {
    let lineage = Lineage::root(TriggerKind::Query);
    RunMemory::new(memory, Tenant::client(tenant), lineage)
}

fn called_by(caller: &RunMemory) -> RunMemory {
    let Inner { memory, tenant, lineage, .. } = &*caller.0;
    RunMemory::new(memory, tenant.clone(), lineage.nested())
}

fn used(memory: &ScriptMemory) -> (usize, usize) {
    (memory.common.used() * PAGE / MIB, memory.reserves.used())
}

#[tokio::test(start_paused = true)]
async fn a_tenant_has_half_of_the_common_part() {
    let memory = small();
    assert_eq!((memory.common.bounds().places, memory.reserves.bounds().places), (RESERVE / 2, 1));
    let (first, second, other) = (run(&memory, "a"), run(&memory, "a"), run(&memory, "b"));
    first.grow(16 * MIB).await.unwrap();
    assert_eq!(used(&memory), (16, 0));
    second.grow(MIB).await.unwrap();
    assert_eq!(used(&memory), (16, 1), "its share is used up, so it takes the reserve");
    other.grow(16 * MIB).await.unwrap();
    assert_eq!(used(&memory), (32, 1));
    let started = Instant::now();
    assert_eq!(run(&memory, "c").grow(MIB).await.unwrap_err(), Full::Patience);
    assert_eq!(started.elapsed(), limits::QUEUE_WAIT);
    drop((first, second, other));
    assert_eq!(used(&memory), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn runs_that_hold_everything_and_want_more_all_end() {
    // As many as may run at once, of two tenants. Each grows in steps to the most that an instance may have.
    let memory = ScriptMemory::new(3 * limits::LINEAR_MEMORY);
    let grows = async |tenant: &str| {
        let run = run(&memory, tenant);
        for _ in 0..32 {
            run.grow(2 * MIB).await?;
            sleep(Duration::from_millis(1)).await;
        }
        Ok::<_, Full>(())
    };
    let started = Instant::now();
    let ended = join_all((0..64).map(|n| grows(if n % 2 == 0 { "a" } else { "b" }))).await;
    assert!(ended.iter().all(Result::is_ok), "{ended:?}");
    assert!(started.elapsed() < limits::QUEUE_WAIT, "{:?}", started.elapsed());
    assert_eq!(used(&memory), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_run_and_those_it_calls_have_one_reserve_and_do_not_wait_for_each_other() {
    let memory = small();
    let other = run(&memory, "a");
    other.grow(16 * MIB).await.unwrap();
    let caller = run(&memory, "a");
    caller.grow(MIB).await.unwrap();
    let (nested, deeper) = (called_by(&caller), called_by(&caller));
    nested.grow(62 * MIB).await.unwrap();
    let started = Instant::now();
    deeper.grow(MIB).await.unwrap();
    assert_eq!(deeper.grow(MIB).await.unwrap_err(), Full::Tenant, "nothing is left of the reserve");
    assert_eq!(started.elapsed(), Duration::ZERO, "it does not wait");
    drop((caller, deeper));
    assert_eq!(used(&memory), (16, 1));
    drop(nested);
    assert_eq!(used(&memory), (16, 0), "released with its last page");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_takes_what_becomes_free_first() {
    let memory = small();
    let (common, reserve) = (run(&memory, "a"), run(&memory, "b"));
    common.grow(16 * MIB).await.unwrap();
    reserve.grow(17 * MIB).await.unwrap();
    assert_eq!(used(&memory), (16, 1), "more than a share fits only the reserve");
    let waiting = run(&memory, "a");
    let frees = async {
        sleep(Duration::from_secs(1)).await;
        drop(common);
    };
    let (grown, ()) = tokio::join!(waiting.grow(4 * MIB), frees);
    assert_eq!((grown, used(&memory)), (Ok(()), (4, 1)));
    waiting.release();
    assert_eq!(used(&memory), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_run_gives_back_what_it_did_not_need() {
    let memory = small();
    let (common, reserve) = (run(&memory, "a"), run(&memory, "b"));
    common.grow(10 * MIB).await.unwrap();
    common.shrink(8 * MIB - 1);
    assert_eq!(used(&memory), (2, 0));
    reserve.grow(40 * MIB).await.unwrap();
    reserve.shrink(39 * MIB);
    assert_eq!(used(&memory), (2, 1));
    reserve.shrink(MIB);
    assert_eq!(used(&memory), (2, 0));
}
