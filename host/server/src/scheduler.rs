//! Starts jobs of the scripts of schedules (`schedule:NAME`) when their time has come.
//!
//! Every host looks at the table of schedules. The id of a job is made from the time that has come, so two hosts queue one job, and a
//! host that ends between the job and the next time loses and doubles none.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use belvedere_base::clock::{Clock, Timestamp};
use belvedere_instance::events::{Event, EventLog};
use belvedere_instance::jobs::JobQueue;
use belvedere_protocol::atproto::Did;
use belvedere_scripting::scripts::{Schedule, ScriptRegistry, ScriptSet};
use belvedere_storage::store::schedules::{self, ScheduleRow};
use belvedere_storage::store::{Db, StoreError, jobs};

/// Between two looks at the schedules.
const INTERVAL: Duration = Duration::from_secs(1);

/// In front of the name of a schedule in the type of its jobs. Scripts can't create such a job: the slash is not allowed in
/// their types.
pub const JOB_TYPE_PREFIX: &str = "schedule/";

/// Starts the jobs of schedules.
#[derive(Debug)]
pub struct Scheduler {
    pub db: Db,
    pub scripts: Arc<ScriptRegistry>,
    pub queue: JobQueue,
    pub events: EventLog,
    pub clock: Clock,
    /// The instance's, which creates the jobs.
    pub did: Did,
}

impl Scheduler {
    /// Runs until the server drains.
    pub async fn run(self, drain: CancellationToken) {
        let mut known = Known::default();
        while drain.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
            if let Err(error) = self.look(&mut known).await {
                tracing::warn!(%error, "the schedules can't be read");
            }
        }
    }

    /// Stores schedules that have changed, and queues the jobs of those whose time has come.
    async fn look(&self, known: &mut Known) -> Result<(), StoreError> {
        let now = self.clock.now();
        let scripts = self.scripts.all();
        if !Arc::ptr_eq(&scripts, &known.scripts) {
            let schedules = schedules_of(&scripts, now);
            for (name, schedule) in &schedules {
                let Some(next_at) = schedule.next(now) else { continue };
                let (cron, timezone) = (schedule.text.clone(), schedule.timezone.clone());
                schedules::set(&self.db, &ScheduleRow { name: name.clone(), cron, timezone, next_at })
                    .await?;
            }
            *known = Known { scripts, schedules };
        }
        if known.schedules.is_empty() {
            return Ok(());
        }
        for row in schedules::list(&self.db).await?.into_iter().filter(|row| row.next_at <= now) {
            if let Some(schedule) = known.schedules.get(&row.name) {
                self.start(&row, schedule, now).await?;
            }
        }
        Ok(())
    }

    /// Queues the job of a schedule whose time has come. Times that were missed meanwhile are one job.
    async fn start(&self, row: &ScheduleRow, schedule: &Schedule, now: Timestamp) -> Result<(), StoreError> {
        let job_type = format!("{JOB_TYPE_PREFIX}{}", row.name);
        let job_id = format!("{}-{}", row.name, row.next_at.0 / 1_000_000);
        let actor = self.did.to_string();
        let is_queued = self.queue.create_alone(&job_id, &job_type, &actor).await?;
        // An expression that has no more times is looked at again when its script is saved.
        let next_at = schedule.next(now).unwrap_or(Timestamp::LATEST);
        let is_first = schedules::advance(&self.db, &row.name, row.next_at, next_at).await?;
        if is_queued {
            self.events.record(Event::JobCreated { actor, job_type, job_id });
        } else if is_first && jobs::get(&self.db, &job_id).await?.is_none() {
            let name = row.name.clone();
            self.events.record(Event::ScheduleSkipped { name, job_type });
        }
        Ok(())
    }
}

/// The schedules that were read last.
#[derive(Debug, Default)]
struct Known {
    scripts: Arc<ScriptSet>,
    schedules: HashMap<String, Schedule>,
}

/// The schedules of all scripts, by name.
fn schedules_of(scripts: &ScriptSet, now: Timestamp) -> HashMap<String, Schedule> {
    let of_script = |(name, source): (&str, &str)| match Schedule::of(source, now) {
        Ok(schedule) => Some((name.to_owned(), schedule)),
        Err(error) => {
            tracing::warn!(schedule = name, %error, "a stored schedule has no time");
            None
        }
    };
    scripts.schedules().filter_map(of_script).collect()
}
