//! Memory that is set aside for a run and the runs that it calls (`sandbox/memory`).

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{PAGE, RESERVE_BYTES};
use belvedere_web::fair_share::Permit;

/// Pages of a reserve.
pub(super) const RESERVE: usize = RESERVE_BYTES / PAGE;

/// The reserve of a run and the runs that it calls, while they have one. A run waits while a run that it calls goes on, so they
/// take from it one after the other.
#[derive(Debug, Default)]
pub(super) struct Reserve(Mutex<Option<OpenReserve>>);

#[derive(Debug)]
struct OpenReserve {
    _permit: Permit,
    /// Pages that runs use.
    used: usize,
}

impl Reserve {
    fn lock(&self) -> MutexGuard<'_, Option<OpenReserve>> {
        // Poisoning is ignored: every update leaves the state consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_open(&self) -> bool {
        self.lock().is_some()
    }

    /// Takes pages of the reserve. `false` when there is none, or not enough is left of it.
    pub(super) fn take(&self, pages: usize) -> bool {
        let mut reserve = self.lock();
        let Some(open) = reserve.as_mut().filter(|open| open.used + pages <= RESERVE) else { return false };
        open.used += pages;
        true
    }

    /// Opens the reserve for a run that uses `pages` of it.
    pub(super) fn open(&self, permit: Permit, pages: usize) {
        let mut reserve = self.lock();
        match reserve.as_mut() {
            Some(open) => open.used += pages,
            None => *reserve = Some(OpenReserve { _permit: permit, used: pages }),
        }
    }

    /// Ends the use of pages. The reserve is released with the last.
    pub(super) fn give_back(&self, pages: usize) {
        if pages == 0 {
            return;
        }
        let mut reserve = self.lock();
        if let Some(open) = reserve.as_mut() {
            open.used = open.used.saturating_sub(pages);
            if open.used == 0 {
                *reserve = None;
            }
        }
    }
}
