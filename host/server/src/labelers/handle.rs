//! The handle of the labelers for the rest of the server.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{Notify, Semaphore, watch};

use crate::event_scripts::EventScripts;
use belvedere_instance::core::Core;

/// Chunks whose signatures are verified at the same time. A labeler with millions of labels occupies one core, and the
/// others remain for requests and the stream.
const MAX_VERIFYING: usize = 1;

/// Wakes the supervisor, and knows how many labelers are connected. Cheap to clone.
#[derive(Clone)]
pub struct Labelers {
    pub(super) core: Core,
    /// Decides about labels before they are stored.
    pub(super) scripts: EventScripts,
    /// Permits to verify a chunk.
    pub(super) verifying: Arc<Semaphore>,
    status: watch::Sender<LabelersStatus>,
    changed: Arc<Notify>,
}

/// The status of the labelers on this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelersStatus {
    /// This host follows the labelers; otherwise another one does.
    pub leading: bool,
    pub active: usize,
    pub connected: usize,
}

impl fmt::Debug for Labelers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Labelers").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Labelers {
    pub fn new(core: Core, scripts: EventScripts) -> Self {
        let (status, _) = watch::channel(LabelersStatus::default());
        let verifying = Arc::new(Semaphore::new(MAX_VERIFYING));
        Self { core, scripts, verifying, status, changed: Arc::default() }
    }

    /// Makes this host look at once which labelers are to be followed.
    pub fn wake(&self) {
        self.changed.notify_one();
    }

    pub fn status(&self) -> LabelersStatus {
        *self.status.borrow()
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut LabelersStatus)) {
        self.status.send_modify(change);
        let LabelersStatus { active, connected, .. } = self.status();
        metrics::gauge!("belvedere_labelers_active").set(active as f64);
        metrics::gauge!("belvedere_labelers_connected").set(connected as f64);
    }
}

/// Counts a labeler as connected while it exists.
#[derive(Debug)]
pub(super) struct Connected(Labelers);

impl Connected {
    pub(super) fn new(labelers: &Labelers) -> Self {
        labelers.update(|status| status.connected += 1);
        Self(labelers.clone())
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.update(|status| status.connected = status.connected.saturating_sub(1));
    }
}
