//! Scripts that decide about events: what becomes of a record or a label before it is kept (`lua-runtime.md` §2, §4).
//!
//! A script says one of three things by what it returns: skip (nil), replace (a table), proceed (anything else). One
//! that fails is tried again when that can help; then the event becomes a dead letter and goes on as it came. Nobody
//! calls in an event's name: there is no caller, no session, and no API client.
//!
//! Whatever brings events asks [`Triggers`]: the stream through [`crate::indexing::RecordScripts`].

mod label;
mod letters;
mod record;
mod retry;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

pub use label::{Label, LabelVerdict};
pub use letters::{AgainError, Stored, event_of};
pub use record::Verdict;

use crate::events::EventLog;
use crate::scripts::{
    CompiledScript, Engine, FailureKind, Invocation, Library, Outcome, ScriptFailure, Services,
};
use crate::store::Db;

/// Runs of event scripts at a time: a few for each core, so that they leave most of the instances to requests, and
/// enough for those that wait for other servers.
const RUNS: usize = 16;

/// One attempt from beginning to end. A script that waits for others longer than this holds its repo up for nothing.
const ATTEMPT: Duration = Duration::from_secs(30);

/// The scripts of events, and what they need. Cheap to clone.
#[derive(Clone)]
pub struct Triggers(Arc<Parts>);

struct Parts {
    engine: Engine,
    library: Arc<Library>,
    services: Services,
    events: EventLog,
    db: Db,
    runs: Semaphore,
}

impl fmt::Debug for Triggers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Triggers")
    }
}

impl Triggers {
    pub fn new(engine: Engine, library: Arc<Library>, services: Services, events: EventLog, db: Db) -> Self {
        Self(Arc::new(Parts { engine, library, services, events, db, runs: Semaphore::new(RUNS) }))
    }

    /// One attempt.
    async fn run(
        &self,
        script: &CompiledScript,
        invocation: &Invocation<'_>,
    ) -> Result<Outcome, ScriptFailure> {
        // Nobody closes the semaphore.
        let _place = self.0.runs.acquire().await;
        let run = self.0.engine.run(script, *invocation, &self.0.services);
        tokio::time::timeout(ATTEMPT, run).await.unwrap_or_else(|_| {
            Err(ScriptFailure::new(FailureKind::Limit, format!("took longer than {ATTEMPT:?}")))
        })
    }
}
