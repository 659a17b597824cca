//! Bounds how many runs compute at the same time: a run goes on only while it holds a permit in the processor pool, a
//! [`FairPool`] with one place per core (`docs/adr/0013-turns-for-long-runs.md`). Runs of scripts and calls of plugins
//! share one pool.
//!
//! A turn is the time from when a run gets a permit until it gives the permit back. It ends when the run waits for the
//! host, when a run of another tenant waits for a permit, or after [`MAX_TURN`] of guest time.
//!
//! Without the pool every busy run would be in the queue of a worker thread. A worker switches to its next task every
//! fraction of a millisecond, but a request that needs little time would still wait for many runs at each of its polls.
//!
//! A run that gets a permit while other runs hold permits first goes to the end of its worker's queue. Otherwise requests
//! that arrive together would each run their script at their first poll, ahead of all tasks queued behind them.
//!
//! A nested run (called through `xrpc.*`) is polled within its caller's polls and uses its caller's permit. With a permit
//! of its own, it could hold that permit while its caller waits for another, and enough such pairs would deadlock.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::{Duration, Instant};

use belvedere_web::fair_share::{Bounds, FairPool, Permit, Tenant};

/// The longest turn, in guest time, while only runs of the same tenant wait: long enough that switching costs little,
/// short enough that all runs make progress.
const MAX_TURN: Duration = Duration::from_millis(5);

/// Waits for a permit.
type Entering = Pin<Box<dyn Future<Output = Option<Permit>> + Send>>;

/// The processor pool of a server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ProcessorPool {
    permits: FairPool,
    max_turn: Duration,
}

impl Default for ProcessorPool {
    /// A pool with one place per core.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::with_permits(cores, MAX_TURN)
    }
}

impl ProcessorPool {
    fn with_permits(cores: usize, max_turn: Duration) -> Self {
        // One tenant may use all cores. The queue needs no bound, since each run in it holds an instance, and a run's
        // deadline bounds its wait.
        let bounds = Bounds {
            permits: cores,
            per_tenant: cores,
            waiting: usize::MAX,
            waiting_per_tenant: usize::MAX,
            max_wait: Duration::MAX,
        };
        Self { permits: FairPool::new("processor", bounds), max_turn }
    }

    /// Runs `work` in turns and measures its guest time: the time of its polls, without waits for the host or for a
    /// permit. Ends it with `None` when that exceeds the bounds. Both engines make their guests yield every millisecond or
    /// sooner, so this is noticed at once.
    pub async fn run<T>(&self, work: impl Future<Output = T>, bounds: &RunBounds) -> (Option<T>, Duration) {
        let mut work = pin!(work);
        let mut spent = Duration::ZERO;
        let (mut slice_began, mut slice) = (Duration::ZERO, 0);
        let mut run_permit = bounds.tenant.as_ref().map(|tenant| RunPermit::of(self, tenant));
        let ended = poll_fn(|context| {
            if let Some(run_permit) = &mut run_permit
                && run_permit.poll(context, spent).is_pending()
            {
                return Poll::Pending;
            }
            let started = Instant::now();
            let (polled, busy) = poll_recording_wakes(work.as_mut(), context, run_permit.is_some());
            spent += started.elapsed();
            let calls = bounds.calls.load(Ordering::Relaxed);
            if calls != slice {
                (slice_began, slice) = (spent, calls);
            }
            match polled {
                Poll::Ready(value) => Poll::Ready(Some(value)),
                Poll::Pending if spent > bounds.total => Poll::Ready(None),
                Poll::Pending if spent.saturating_sub(slice_began) > bounds.slice => Poll::Ready(None),
                Poll::Pending => {
                    // A run that waits for the host needs no permit, and a run whose turn is over gives its permit back.
                    if let Some(run_permit) = &mut run_permit
                        && (!busy || run_permit.turn_is_over(spent))
                    {
                        run_permit.permit = None;
                    }
                    Poll::Pending
                }
            }
        })
        .await;
        (ended, spent)
    }
}

/// The limit of a run's guest time.
#[derive(Clone, Debug)]
pub struct RunBounds {
    /// The tenant whose permit the run takes; `None` for a nested run, which uses its caller's permit.
    pub tenant: Option<Tenant>,
    /// In all.
    pub total: Duration,
    /// Between two calls of the host.
    pub slice: Duration,
    /// Calls of the host so far.
    pub calls: Arc<AtomicU32>,
}

/// A run's permit in the processor pool, while it has one.
struct RunPermit<'a> {
    pool: &'a ProcessorPool,
    tenant: &'a Tenant,
    permit: Option<Permit>,
    entering: Option<Entering>,
    /// The run's guest time when the turn began.
    turn_began: Duration,
}

impl<'a> RunPermit<'a> {
    fn of(pool: &'a ProcessorPool, tenant: &'a Tenant) -> Self {
        Self { pool, tenant, permit: None, entering: None, turn_began: Duration::ZERO }
    }

    fn poll(&mut self, context: &mut Context<'_>, spent: Duration) -> Poll<()> {
        if self.permit.is_some() {
            return Poll::Ready(());
        }
        ready!(self.poll_permit(context));
        self.turn_began = spent;
        if self.pool.permits.used() > 1 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// A waiting run of another tenant ends the turn at once: it may be short, and must not wait for the rest of a
    /// turn.
    fn turn_is_over(&self, spent: Duration) -> bool {
        spent.saturating_sub(self.turn_began) > self.pool.max_turn
            || self.pool.permits.others_wait(self.tenant)
    }

    fn poll_permit(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let permits = &self.pool.permits;
        if self.entering.is_none() {
            self.permit = permits.take(self.tenant, 1);
        }
        if self.permit.is_none() {
            let entering = self.entering.get_or_insert_with(|| {
                let (permits, tenant) = (permits.clone(), self.tenant.clone());
                // The pool's bounds refuse no call.
                Box::pin(async move { permits.enter(&tenant).await.ok() })
            });
            self.permit = ready!(entering.as_mut().poll(context));
            self.entering = None;
        }
        Poll::Ready(())
    }
}

/// Polls `work`. The flag is true when `work` woke itself during the poll: it has more to compute and does not wait for
/// the host. Without `record` it is always true.
fn poll_recording_wakes<T>(
    work: Pin<&mut impl Future<Output = T>>,
    context: &mut Context<'_>,
    record: bool,
) -> (Poll<T>, bool) {
    if !record {
        return (work.poll(context), true);
    }
    let recorder = Arc::new(WakeRecorder { woken: AtomicBool::new(false), waker: context.waker().clone() });
    let polled = work.poll(&mut Context::from_waker(&Waker::from(Arc::clone(&recorder))));
    (polled, recorder.woken.load(Ordering::Relaxed))
}

/// A waker that records whether it was woken.
struct WakeRecorder {
    woken: AtomicBool,
    waker: Waker,
}

impl Wake for WakeRecorder {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Relaxed);
        self.waker.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::sync::Notify;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(100);

    fn within(total: Duration) -> RunBounds {
        RunBounds { tenant: Some(Tenant::Instance), total, slice: total, calls: Arc::default() }
    }

    /// Yields, as the engine does after each fuel interval.
    async fn yield_once() {
        let mut gave = false;
        poll_fn(|context| {
            context.waker().wake_by_ref();
            if std::mem::replace(&mut gave, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    async fn busy(polls: usize) {
        for _ in 0..polls {
            std::thread::sleep(Duration::from_millis(2));
            yield_once().await;
        }
    }

    #[tokio::test]
    async fn guest_time_is_bounded_and_waits_are_free() {
        let pool = ProcessorPool::default();
        let (ended, spent) = pool.run(busy(usize::MAX), &within(LIMIT)).await;
        assert!(ended.is_none() && spent > LIMIT, "{spent:?}");
        let (ended, spent) = pool.run(tokio::time::sleep(2 * LIMIT), &within(LIMIT)).await;
        assert!(ended.is_some() && spent < LIMIT, "{spent:?}");
    }

    #[tokio::test]
    async fn runs_are_not_interrupted_within_a_turn() {
        let pool = ProcessorPool::with_permits(1, Duration::from_hours(1));
        let steps = Mutex::new(Vec::new());
        let run = async |name: char| {
            let work = async {
                busy(1).await;
                for _ in 0..5 {
                    steps.lock().unwrap().push(name);
                    busy(1).await;
                }
            };
            pool.run(work, &within(Duration::from_hours(1))).await.0
        };
        let ended = tokio::join!(biased; run('a'), run('b'), run('c'));
        assert_eq!(ended, (Some(()), Some(()), Some(())));
        assert_eq!(steps.into_inner().unwrap().into_iter().collect::<String>(), "aaaaabbbbbccccc");
    }

    #[tokio::test]
    async fn a_slice_ends_with_a_call_of_the_host() {
        let pool = ProcessorPool::default();
        let bounds = RunBounds { slice: LIMIT, ..within(10 * LIMIT) };
        let calling = async {
            // Each slice takes a fifth of its limit on an idle machine; together they exceed the limit.
            for _ in 0..8 {
                busy(10).await;
                bounds.calls.fetch_add(1, Ordering::Relaxed);
            }
        };
        let (ended, spent) = pool.run(calling, &bounds).await;
        assert!(ended.is_some() && spent > LIMIT, "{spent:?}");
        assert!(pool.run(busy(usize::MAX), &bounds).await.0.is_none());
    }

    #[tokio::test]
    async fn a_run_gives_its_permit_back_after_its_turn() {
        let pool = ProcessorPool::with_permits(1, Duration::ZERO);
        let steps = Mutex::new(String::new());
        let run = async |name: char| {
            let work = async {
                for _ in 0..3 {
                    busy(1).await;
                    steps.lock().unwrap().push(name);
                }
            };
            pool.run(work, &within(Duration::from_hours(1))).await.0
        };
        assert_eq!(tokio::join!(biased; run('a'), run('b')), (Some(()), Some(())));
        assert_eq!(steps.into_inner().unwrap(), "ababab");
    }

    #[tokio::test]
    async fn a_run_that_waits_for_the_host_gives_its_permit_back() {
        let pool = ProcessorPool::with_permits(1, Duration::from_hours(1));
        let answered = Notify::new();
        let bounds = within(Duration::from_secs(10));
        let waiting = pool.run(
            async {
                busy(2).await;
                answered.notified().await;
                busy(2).await;
            },
            &bounds,
        );
        let working = async {
            let ended = pool.run(busy(10), &within(Duration::from_secs(10))).await.0;
            answered.notify_one();
            ended
        };
        let (waited, worked) = tokio::join!(waiting, working);
        assert!(waited.0.is_some() && worked.is_some());
        assert_eq!(pool.permits.used(), 0);
    }

    #[tokio::test]
    async fn a_run_beside_others_first_goes_to_the_end_of_the_queue() {
        let pool = ProcessorPool::with_permits(2, Duration::from_hours(1));
        let order = async || {
            let steps = Mutex::new(String::new());
            let run = async { steps.lock().unwrap().push_str("run ") };
            let request = async { steps.lock().unwrap().push_str("request ") };
            let bounds = within(LIMIT);
            tokio::join!(biased; pool.run(run, &bounds), request);
            steps.into_inner().unwrap()
        };
        assert_eq!(order().await, "run request ");
        let _other = pool.permits.try_enter(&Tenant::client("other")).unwrap();
        assert_eq!(order().await, "request run ");
    }

    #[tokio::test]
    async fn tenants_are_served_in_turn() {
        // A turn ends only for a run of another tenant.
        let pool = ProcessorPool::with_permits(1, Duration::from_hours(1));
        let steps = Mutex::new(String::new());
        let run = async |name: &str| {
            let bounds = RunBounds { tenant: Some(Tenant::client(name)), ..within(Duration::from_hours(1)) };
            let work = async {
                for _ in 0..4 {
                    steps.lock().unwrap().push_str(name);
                    busy(1).await;
                }
            };
            pool.run(work, &bounds).await.0
        };
        tokio::join!(biased; run("a"), run("a"), run("a"), run("a"), run("b"));
        let steps = steps.into_inner().unwrap();
        // b waits for a permit again once the next step of an a has begun: each of its four steps comes after two of
        // a's.
        assert_eq!(steps.trim_end_matches('a').len(), 12, "{steps}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nested_runs_need_no_second_permit() {
        let pool = ProcessorPool::with_permits(1, Duration::from_millis(1));
        let called = async || {
            let bounds = RunBounds { tenant: None, ..within(Duration::from_hours(1)) };
            pool.run(busy(3), &bounds).await.0
        };
        let run = async || {
            let work = async {
                busy(1).await;
                for _ in 0..3 {
                    called().await.unwrap();
                }
            };
            pool.run(work, &within(Duration::from_hours(1))).await.0
        };
        let all = async { tokio::join!(run(), run(), run()) };
        assert!(tokio::time::timeout(Duration::from_secs(30), all).await.is_ok());
    }
}
