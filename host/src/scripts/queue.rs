//! Who gets an instance when all are taken: a bounded queue, and a bounded wait.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

/// The pool's places and those who wait for one, first come first served.
#[derive(Debug)]
pub(super) struct Queue {
    places: Semaphore,
    waiting: AtomicU32,
    most: u32,
    longest: Duration,
}

/// The queue is full, or the wait was too long.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Queue {
    pub(super) fn new(places: u32, most: u32, longest: Duration) -> Self {
        Self { places: Semaphore::new(places as usize), waiting: AtomicU32::new(0), most, longest }
    }

    /// A place, held until it is dropped.
    pub(super) async fn enter(&self) -> Result<SemaphorePermit<'_>, Full> {
        if let Ok(place) = self.places.try_acquire() {
            return Ok(place);
        }
        let _waiting = Waiting::join(&self.waiting, self.most)?;
        match tokio::time::timeout(self.longest, self.places.acquire()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(Full),
        }
    }
}

/// One who waits; leaving takes him off the count, however he leaves.
struct Waiting<'a>(&'a AtomicU32);

impl<'a> Waiting<'a> {
    fn join(count: &'a AtomicU32, most: u32) -> Result<Self, Full> {
        if count.fetch_add(1, Ordering::Relaxed) >= most {
            count.fetch_sub(1, Ordering::Relaxed);
            return Err(Full);
        }
        Ok(Self(count))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_queue_and_the_wait_are_bounded() {
        let queue = Queue::new(1, 1, Duration::from_secs(5));
        let held = queue.enter().await.unwrap();
        // One waits and gives up after the longest wait; meanwhile there is no room for a second.
        let (first, second) = tokio::join!(queue.enter(), queue.enter());
        assert!(first.is_err() && second.is_err());
        let (third, ()) = tokio::join!(queue.enter(), async { drop(held) });
        assert!(third.is_ok());
        assert_eq!(queue.waiting.load(Ordering::Relaxed), 0);
    }
}
