//! Makes running guests yield: advances the engine's epoch every [`TICK`] while calls run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};

use wasmtime::Engine;

use crate::plugins::limits::TICK;

/// Ticks without a call after which the thread sleeps. Waking it takes longer than a short call, so it does not sleep
/// between the calls of a busy server.
const LINGER: u32 = 200;

/// The thread that advances the epoch. It ends when the ticker is dropped.
#[derive(Debug)]
pub(super) struct Ticker {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct Shared {
    calls: AtomicUsize,
    asleep: AtomicBool,
    ended: AtomicBool,
}

/// The epoch advances while this exists.
#[derive(Debug)]
pub(super) struct Ticking<'a>(&'a Shared);

impl Ticker {
    /// # Errors
    /// When the thread can't be started.
    pub(super) fn start(engine: &Engine) -> std::io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let (engine, of_thread) = (engine.clone(), Arc::clone(&shared));
        let thread = thread::Builder::new().name("plugin-ticker".to_owned());
        let thread = thread.spawn(move || of_thread.run(&engine))?;
        Ok(Self { shared, thread: thread.thread().clone() })
    }

    /// Makes the epoch advance until the result is dropped.
    pub(super) fn tick(&self) -> Ticking<'_> {
        self.shared.calls.fetch_add(1, Ordering::SeqCst);
        // The thread checks for calls after it has set this, so one of the two sees the other's write.
        if self.shared.asleep.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        Ticking(&self.shared)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

impl Drop for Ticking<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shared {
    fn run(&self, engine: &Engine) {
        let mut idle = 0;
        while !self.ended.load(Ordering::SeqCst) {
            if self.calls.load(Ordering::SeqCst) > 0 {
                idle = 0;
            } else if idle < LINGER {
                idle += 1;
            } else {
                self.asleep.store(true, Ordering::SeqCst);
                if self.calls.load(Ordering::SeqCst) == 0 && !self.ended.load(Ordering::SeqCst) {
                    thread::park();
                }
                self.asleep.store(false, Ordering::SeqCst);
                continue;
            }
            thread::sleep(TICK);
            engine.increment_epoch();
        }
    }
}
