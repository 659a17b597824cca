//! Runs take turns at the processor. A worker thread gives a busy script's place to the next task every fraction of a
//! millisecond, but with many of them in its queue that is a long way round for a request that needs almost nothing. So
//! only as many runs as there are cores are in the queues at any time. The others wait here, and the tenants that they
//! belong to are served in turn.
//!
//! A run that gets its turn beside others does not begin at once: it goes to the end of its worker's queue first. Else
//! requests that came together would each run their script when they are looked at first, one after the other, in front of
//! whatever came after them.
//!
//! A run that another run called is polled within that one's polls, and so within its turn: with a turn of its own it
//! would hold one while its caller waits for another, and enough such pairs would wait for ever.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::{Duration, Instant};

use crate::fair_share::{Bounds as PoolBounds, FairPool, Place, Tenant};

/// Guest time of one turn, while none but runs of the same tenant wait: long enough that changing costs nothing, short enough that all runs get on.
const TURN: Duration = Duration::from_millis(5);

type Acquiring = Pin<Box<dyn Future<Output = Option<Place>> + Send>>;

/// The turns of one engine.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    places: FairPool,
    turn: Duration,
}

impl Turns {
    /// As many at once as the machine has cores.
    pub(super) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::with(cores, TURN)
    }

    fn with(cores: usize, turn: Duration) -> Self {
        // A tenant alone has all cores. Runs are few, since each holds an instance, and none is turned away here: what
        // bounds a run's waiting is its deadline.
        let bounds = PoolBounds {
            places: cores,
            per_tenant: cores,
            waiting: usize::MAX,
            waiting_per_tenant: usize::MAX,
            patience: Duration::MAX,
        };
        Self { places: FairPool::new("processor", bounds), turn }
    }

    /// Polls `work` and adds up the time it takes the thread; waiting, for the host or for a turn, takes none. `None`
    /// when that is over the bounds. The fuel interval makes polls short, so it is noticed at once.
    pub(super) async fn timed<T>(
        &self,
        work: impl Future<Output = T>,
        bounds: &Bounds,
    ) -> (Option<T>, Duration) {
        let mut work = pin!(work);
        let mut spent = Duration::ZERO;
        let (mut slice_began, mut slice) = (Duration::ZERO, 0);
        let mut seat = bounds.tenant.as_ref().map(|tenant| Seat::of(self, tenant));
        let ended = poll_fn(|context| {
            if let Some(seat) = &mut seat
                && seat.poll(context, spent).is_pending()
            {
                return Poll::Pending;
            }
            let started = Instant::now();
            let (polled, busy) = watched(work.as_mut(), context, seat.is_some());
            spent += started.elapsed();
            let calls = bounds.calls.load(Ordering::Relaxed);
            if calls != slice {
                (slice_began, slice) = (spent, calls);
            }
            match polled {
                Poll::Ready(value) => Poll::Ready(Some(value)),
                Poll::Pending if spent > bounds.all => Poll::Ready(None),
                Poll::Pending if spent.saturating_sub(slice_began) > bounds.slice => Poll::Ready(None),
                Poll::Pending => {
                    // Who waits for the host needs no turn, and who had one long enough lets others have it.
                    if let Some(seat) = &mut seat
                        && (!busy || seat.is_over(spent))
                    {
                        seat.taken = None;
                    }
                    Poll::Pending
                }
            }
        })
        .await;
        (ended, spent)
    }
}

/// How much guest time a run may take.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// Whose turn the run takes; `None` for a run within another's turn.
    pub(super) tenant: Option<Tenant>,
    pub(super) all: Duration,
    /// Between two calls of the host.
    pub(super) slice: Duration,
    /// Calls of the host so far.
    pub(super) calls: Arc<AtomicU32>,
}

/// A run's place among those that may go on.
struct Seat<'a> {
    turns: &'a Turns,
    tenant: &'a Tenant,
    taken: Option<Place>,
    acquiring: Option<Acquiring>,
    /// The run's guest time when it took the place.
    since: Duration,
}

impl<'a> Seat<'a> {
    fn of(turns: &'a Turns, tenant: &'a Tenant) -> Self {
        Self { turns, tenant, taken: None, acquiring: None, since: Duration::ZERO }
    }

    fn poll(&mut self, context: &mut Context<'_>, spent: Duration) -> Poll<()> {
        if self.taken.is_some() {
            return Poll::Ready(());
        }
        ready!(self.poll_taken(context));
        self.since = spent;
        if self.turns.places.used() > 1 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// A run of another tenant, which may need no more than a moment, does not wait for the rest of a turn.
    fn is_over(&self, spent: Duration) -> bool {
        spent.saturating_sub(self.since) > self.turns.turn || self.turns.places.others_wait(self.tenant)
    }

    fn poll_taken(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let places = &self.turns.places;
        if self.acquiring.is_none() && !places.is_full_for(self.tenant) {
            self.taken = places.try_enter(self.tenant).ok();
        }
        if self.taken.is_none() {
            let acquiring = self.acquiring.get_or_insert_with(|| {
                let (places, tenant) = (places.clone(), self.tenant.clone());
                // The pool's bounds turn no call away.
                Box::pin(async move { places.enter(&tenant).await.ok() })
            });
            self.taken = ready!(acquiring.as_mut().poll(context));
            self.acquiring = None;
        }
        Poll::Ready(())
    }
}

/// Polls, and tells whether the work asked to be polled again at once: then it has more to do, and does not wait.
fn watched<T>(
    work: Pin<&mut impl Future<Output = T>>,
    context: &mut Context<'_>,
    watch: bool,
) -> (Poll<T>, bool) {
    if !watch {
        return (work.poll(context), true);
    }
    let bell = Arc::new(Bell { rung: AtomicBool::new(false), waker: context.waker().clone() });
    let polled = work.poll(&mut Context::from_waker(&Waker::from(Arc::clone(&bell))));
    (polled, bell.rung.load(Ordering::Relaxed))
}

/// A waker that remembers.
struct Bell {
    rung: AtomicBool,
    waker: Waker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Relaxed);
        self.waker.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::sync::Notify;

    use super::*;

    const MOST: Duration = Duration::from_millis(100);

    fn within(all: Duration) -> Bounds {
        Bounds { tenant: Some(Tenant::Instance), all, slice: all, calls: Arc::default() }
    }

    /// As the engine does when a fuel interval is over.
    async fn give_way() {
        let mut gave = false;
        poll_fn(|context| {
            context.waker().wake_by_ref();
            if std::mem::replace(&mut gave, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    async fn busy(turns: usize) {
        for _ in 0..turns {
            std::thread::sleep(Duration::from_millis(2));
            give_way().await;
        }
    }

    #[tokio::test]
    async fn guest_time_is_bounded_and_waits_are_free() {
        let turns = Turns::new();
        let (ended, spent) = turns.timed(busy(usize::MAX), &within(MOST)).await;
        assert!(ended.is_none() && spent > MOST, "{spent:?}");
        let (ended, spent) = turns.timed(tokio::time::sleep(2 * MOST), &within(MOST)).await;
        assert!(ended.is_some() && spent < MOST, "{spent:?}");
    }

    #[tokio::test]
    async fn long_runs_go_one_after_the_other_while_a_turn_lasts() {
        let turns = Turns::with(1, Duration::from_hours(1));
        let steps = Mutex::new(Vec::new());
        let run = async |name: char| {
            let work = async {
                busy(1).await; // now it is long
                for _ in 0..5 {
                    steps.lock().unwrap().push(name);
                    busy(1).await;
                }
            };
            turns.timed(work, &within(Duration::from_hours(1))).await.0
        };
        let ended = tokio::join!(biased; run('a'), run('b'), run('c'));
        assert_eq!(ended, (Some(()), Some(()), Some(())));
        assert_eq!(steps.into_inner().unwrap().into_iter().collect::<String>(), "aaaaabbbbbccccc");
    }

    #[tokio::test]
    async fn a_slice_ends_with_a_call_of_the_host() {
        let turns = Turns::new();
        let bounds = Bounds { slice: MOST, ..within(10 * MOST) };
        let calling = async {
            // Slices of a fifth of what they may take, on a machine that does nothing else.
            for _ in 0..8 {
                busy(10).await;
                bounds.calls.fetch_add(1, Ordering::Relaxed);
            }
        };
        let (ended, spent) = turns.timed(calling, &bounds).await;
        assert!(ended.is_some() && spent > MOST, "{spent:?}");
        assert!(turns.timed(busy(usize::MAX), &bounds).await.0.is_none());
    }

    #[tokio::test]
    async fn after_a_turn_it_is_anothers() {
        let turns = Turns::with(1, Duration::ZERO);
        let steps = Mutex::new(String::new());
        let run = async |name: char| {
            let work = async {
                for _ in 0..3 {
                    busy(1).await;
                    steps.lock().unwrap().push(name);
                }
            };
            turns.timed(work, &within(Duration::from_hours(1))).await.0
        };
        assert_eq!(tokio::join!(biased; run('a'), run('b')), (Some(()), Some(())));
        assert_eq!(steps.into_inner().unwrap(), "ababab");
    }

    #[tokio::test]
    async fn who_waits_for_the_host_leaves_its_turn_to_others() {
        let turns = Turns::with(1, Duration::from_hours(1));
        let answered = Notify::new();
        let bounds = within(Duration::from_secs(10));
        let waiting = turns.timed(
            async {
                busy(2).await;
                answered.notified().await;
                busy(2).await;
            },
            &bounds,
        );
        let working = async {
            let ended = turns.timed(busy(10), &within(Duration::from_secs(10))).await.0;
            answered.notify_one();
            ended
        };
        let (waited, worked) = tokio::join!(waiting, working);
        assert!(waited.0.is_some() && worked.is_some());
        assert_eq!(turns.places.used(), 0);
    }

    #[tokio::test]
    async fn a_run_beside_others_begins_behind_what_is_in_the_queue() {
        let turns = Turns::with(2, Duration::from_hours(1));
        let order = async || {
            let steps = Mutex::new(String::new());
            let run = async { steps.lock().unwrap().push_str("run ") };
            let request = async { steps.lock().unwrap().push_str("request ") };
            let bounds = within(MOST);
            tokio::join!(biased; turns.timed(run, &bounds), request);
            steps.into_inner().unwrap()
        };
        assert_eq!(order().await, "run request ");
        let _other = turns.places.try_enter(&Tenant::client("other")).unwrap();
        assert_eq!(order().await, "request run ");
    }

    #[tokio::test]
    async fn tenants_are_served_in_turn() {
        // Turns end only for others.
        let turns = Turns::with(1, Duration::from_hours(1));
        let steps = Mutex::new(String::new());
        let run = async |name: &str| {
            let bounds = Bounds { tenant: Some(Tenant::client(name)), ..within(Duration::from_hours(1)) };
            let work = async {
                for _ in 0..4 {
                    steps.lock().unwrap().push_str(name);
                    busy(1).await;
                }
            };
            turns.timed(work, &bounds).await.0
        };
        tokio::join!(biased; run("a"), run("a"), run("a"), run("a"), run("b"));
        let steps = steps.into_inner().unwrap();
        // b waits again once a's next step has begun: each of its four steps comes after two of theirs.
        assert_eq!(steps.trim_end_matches('a').len(), 12, "{steps}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn runs_that_call_runs_need_no_second_turn() {
        let turns = Turns::with(1, Duration::from_millis(1));
        let called = async || {
            let bounds = Bounds { tenant: None, ..within(Duration::from_hours(1)) };
            turns.timed(busy(3), &bounds).await.0
        };
        let run = async || {
            let work = async {
                busy(1).await;
                for _ in 0..3 {
                    called().await.unwrap();
                }
            };
            turns.timed(work, &within(Duration::from_hours(1))).await.0
        };
        let all = async { tokio::join!(run(), run(), run()) };
        assert!(tokio::time::timeout(Duration::from_secs(30), all).await.is_ok());
    }
}
