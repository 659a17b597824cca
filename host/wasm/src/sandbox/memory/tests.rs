use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};
use wasmtime::ResourceLimiterAsync as _;

use super::*;

const MIB: usize = 1 << 20;

/// A quarter of a reserve is what a tenant may have of the common part.
fn small() -> MemoryPool {
    MemoryPool::new(RESERVE_BYTES * 3 / 2)
}

fn run(memory: &MemoryPool, tenant: &str) -> RunMemory {
    run_on(WhenFull::Wait, memory, tenant)
}

fn run_on(when_full: WhenFull, memory: &MemoryPool, tenant: &str) -> RunMemory {
    RunMemory::new(memory, Tenant::client(tenant), MemoryGroup::new(when_full))
}

fn called_by(caller: &RunMemory, memory: &MemoryPool, tenant: &str) -> RunMemory {
    RunMemory::new(memory, Tenant::client(tenant), caller.group().clone())
}

fn used(memory: &MemoryPool) -> (usize, usize) {
    (memory.common.used() * PAGE / MIB, memory.reserves.used())
}

#[tokio::test(start_paused = true)]
async fn a_tenant_has_half_of_the_common_part() {
    let memory = small();
    assert_eq!((memory.common.bounds().permits, memory.reserves.bounds().permits), (RESERVE / 2, 1));
    let (first, second, other) = (run(&memory, "a"), run(&memory, "a"), run(&memory, "b"));
    first.grow(16 * MIB).await.unwrap();
    assert_eq!(used(&memory), (16, 0));
    second.grow(MIB).await.unwrap();
    assert_eq!(used(&memory), (16, 1), "its share is used up, so it takes the reserve");
    other.grow(16 * MIB).await.unwrap();
    assert_eq!(used(&memory), (32, 1));
    let started = Instant::now();
    assert_eq!(run(&memory, "c").grow(MIB).await.unwrap_err(), Full::Timeout);
    assert_eq!(started.elapsed(), MAX_WAIT);
    drop((first, second, other));
    assert_eq!(used(&memory), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn runs_that_hold_everything_and_want_more_all_end() {
    // As many as may run at once, of two tenants. Each grows in steps to the most that an instance may have.
    let memory = MemoryPool::new(3 * RESERVE_BYTES);
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
    assert!(started.elapsed() < MAX_WAIT, "{:?}", started.elapsed());
    assert_eq!(used(&memory), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_run_and_those_it_calls_have_one_reserve_and_do_not_wait_for_each_other() {
    let memory = small();
    let other = run(&memory, "a");
    other.grow(16 * MIB).await.unwrap();
    let caller = run(&memory, "a");
    caller.grow(MIB).await.unwrap();
    let (nested, deeper) = (called_by(&caller, &memory, "a"), called_by(&caller, &memory, "a"));
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

#[tokio::test(start_paused = true)]
async fn jobs_have_no_reserve_and_leave_half_of_the_common_part_to_others() {
    let memory = small();
    let job = run_on(WhenFull::WaitAsJob, &memory, "a");
    assert_eq!(job.most(), 8 * MIB, "half of half of the common part");
    job.grow(8 * MIB).await.unwrap();
    let started = Instant::now();
    assert_eq!(run_on(WhenFull::WaitAsJob, &memory, "a").grow(MIB).await.unwrap_err(), Full::Timeout);
    assert_eq!((started.elapsed(), used(&memory)), (MAX_WAIT, (8, 0)));
    run_on(WhenFull::WaitAsJob, &memory, "b").grow(9 * MIB).await.unwrap_err();
    let other = run_on(WhenFull::WaitAsJob, &memory, "b");
    other.grow(8 * MIB).await.unwrap();
    assert!(
        !run_on(WhenFull::WaitAsJob, &memory, "c").try_grow(MIB),
        "jobs have half, however many tenants run them"
    );
    let (query, another) = (run(&memory, "a"), run(&memory, "b"));
    query.grow(8 * MIB).await.unwrap();
    another.grow(8 * MIB).await.unwrap();
    assert_eq!(used(&memory), (32, 0));
    job.shrink(4 * MIB);
    drop((query, another));
    assert!(run_on(WhenFull::WaitAsJob, &memory, "a").try_grow(4 * MIB));
    drop((job, other));
    assert_eq!((used(&memory), memory.of_jobs.used()), ((0, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn runs_for_which_others_wait_do_not_wait() {
    let memory = small();
    let other = run(&memory, "a");
    other.grow(16 * MIB).await.unwrap();
    let started = Instant::now();
    let early = run_on(WhenFull::Refuse, &memory, "a");
    assert_eq!(early.grow(MIB).await.unwrap_err(), Full::Tenant);
    assert_eq!((started.elapsed(), used(&memory)), (Duration::ZERO, (16, 0)));
    drop(other);
    early.grow(MIB).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn results_take_what_the_largest_needs_and_bodies_what_has_arrived() {
    let memory = small();
    let holder = run(&memory, "a");
    let results = ResultMemory::new(Some(holder.clone()), MIB);
    results.take(MIB).await.unwrap();
    assert_eq!(used(&memory), (0, 0), "so much is free");
    results.take(2 * MIB).await.unwrap();
    results.begin().await;
    results.take(3 * MIB).await.unwrap();
    assert_eq!(used(&memory), (2, 0));
    // Several responses that arrive at the same time wait one after the other, and have one reserve.
    let parts = join_all((0..8).map(|_| results.take(3 * MIB))).await;
    assert!(parts.iter().all(Result::is_ok), "{parts:?}");
    assert!(used(&memory).1 == 1 && results.check().is_ok());
    results.keep(MIB).await;
    assert_eq!(used(&memory).1, 0);
    let other = run(&memory, "b");
    other.grow(40 * MIB).await.unwrap();
    assert_eq!(results.take(40 * MIB).await, Err(Full::Timeout));
    assert!(matches!(results.check(), Err(NoMemory(Full::Timeout))));
}

#[tokio::test(start_paused = true)]
async fn an_instance_has_what_the_attempt_before_took() {
    let memory = small();
    let run = run(&memory, "a");
    let limits = GrowthLimits { memory_bytes: 8 * MIB, table_elements: 1, free_result_bytes: 0 };
    let mut instance = InstanceMemory::new(limits);
    instance.begin(&run, MIB).await.unwrap();
    assert_eq!(used(&memory), (1, 0), "taken before there is an instance");
    for _ in 0..3 {
        assert!(instance.memory_growing(0, 2 * MIB, None).await.unwrap());
        assert_eq!((used(&memory), instance.grown()), ((2, 0), 2 * MIB));
        instance.restart();
    }
    assert!(instance.memory_growing(0, 8 * MIB, None).await.unwrap());
    assert_eq!(used(&memory), (8, 0));
    assert!(!instance.memory_growing(8 * MIB, 8 * MIB + 1, None).await.unwrap() && instance.was_refused());
}
