//! Hands a thread over while it computes for long, so that other tasks do not wait for it.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Bytes that take longer to work on, some milliseconds, than to hand the thread's other tasks over.
pub const LARGE: usize = 64 << 10;

/// Runs `work` on `bytes` of data. If they are many, the runtime's other tasks go on in another thread meanwhile. A loop
/// is one work with the sum of its bytes.
pub fn hand_over_thread<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    // A runtime of one thread has no other, and outside of a runtime nothing waits.
    if bytes > LARGE && matches!(flavor, Ok(RuntimeFlavor::MultiThread)) {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_in_and_outside_of_any_runtime() {
        assert_eq!(hand_over_thread(LARGE + 1, || 1), 1);
        let one = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(one.block_on(async { hand_over_thread(LARGE + 1, || 2) }), 2);
        let several = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (waits, waited) = std::sync::mpsc::channel();
        let both = several.spawn(async move {
            // With one worker, the other task runs only if it is handed over.
            tokio::spawn(async move { waits.send(()) });
            hand_over_thread(LARGE + 1, || waited.recv().is_ok())
        });
        assert!(several.block_on(both).unwrap());
    }
}
