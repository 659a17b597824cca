//! Runs event scripts, which decide on a record or a label before it is stored (`lua-runtime.md` §2, §4), and those of
//! subscriptions, which make messages of stored changes.
//!
//! A script decides by its return value: nil skips the event, a table replaces the record or label, anything else lets
//! it proceed. A script that fails is retried when that can help; after that the event is dead-lettered and proceeds
//! unmodified. Event scripts run without a caller, a session and an API client.
//!
//! [`EventScripts`] runs the scripts; the stream calls it through [`belvedere_instance::indexing::RecordScriptRunner`].

mod label;
mod letters;
mod messages;
mod record;
mod reindex;
mod retry;

use std::fmt;
use std::sync::Arc;

use tokio::sync::Semaphore;

pub use label::{Label, LabelVerdict};
pub use letters::{RetryError, original_event};
pub use messages::{MessageParams, change_json};
pub use record::Verdict;
pub use reindex::{Reindexing, TYPE as REINDEX_TYPE};

use belvedere_instance::events::EventLog;
use belvedere_instance::indexing::{EarlyEvents, Throttle};
use belvedere_scripting::scripts::{
    CompiledScript, Invocation, Outcome, ScriptFailure, ScriptRuntime, Services,
};
use belvedere_storage::store::Db;
use belvedere_web::fair_share::{Bounds, FairPool};

/// Event scripts that run at the same time: a few per core, which leaves most instances of the guest to requests, but
/// enough while some scripts wait for other servers.
const MAX_RUNS: usize = 16;

/// Scripts of subscriptions that run at the same time: a client that resumes may need thousands of runs, and the scripts of
/// records must not wait for them. Half of them for one tenant, so that those of another go on.
const MAX_MESSAGE_RUNS: usize = 8;

/// Runs the scripts bound to record and label events. Cheap to clone.
#[derive(Clone)]
pub struct EventScripts(Arc<Inner>);

struct Inner {
    runtime: ScriptRuntime,
    events: EventLog,
    db: Db,
    runs: Semaphore,
    message_runs: FairPool,
    early: EarlyEvents,
    /// Reports of dead letters of labels.
    label_letters: Throttle,
}

impl fmt::Debug for EventScripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventScripts")
    }
}

impl EventScripts {
    pub fn new(runtime: ScriptRuntime, events: EventLog, db: Db) -> Self {
        let label_letters = letters::throttle(&runtime.services.clock);
        Self(Arc::new(Inner {
            label_letters,
            runtime,
            events,
            db,
            runs: Semaphore::new(MAX_RUNS),
            message_runs: FairPool::new(
                "subscription_script_runs",
                Bounds::without_refusals(MAX_MESSAGE_RUNS),
            ),
            early: EarlyEvents::default(),
        }))
    }

    /// Runs a script once, within the limit on concurrency.
    async fn run(
        &self,
        script: &CompiledScript,
        invocation: &Invocation<'_>,
        services: &Services,
    ) -> Result<Outcome, ScriptFailure> {
        // Fails only when the semaphore is closed, which never happens.
        let _permit = self.0.runs.acquire().await;
        self.0.runtime.engine.run(script, *invocation, services).await
    }
}
