//! Replays the recorded runs of a script on another body.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::libraries::{self, of_script};
use crate::access::{Admin, Permission};
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_protocol::trigger::Trigger;
use belvedere_scripting::scripts::{
    CompiledScript, Difference, DifferenceKind, RecordedRun, Replayed, Replayer,
};
use belvedere_storage::store::script_recordings::{self, MAX_RUNS, RecordedRow};
use belvedere_storage::store::scripts;
use belvedere_web::http::Error;

/// Runs that are read at once: they have 16 MiB at most.
const PAGE: i64 = 32;

/// Longest time of all replays: a body that runs into its limits takes long for each run.
const MAX_TIME: Duration = Duration::from_mins(1);

/// Replays at the same time, so that requests go on.
const TOGETHER: usize = 2;

/// Groups of differences in an answer. Runs with others are counted.
const MAX_GROUPS: usize = 50;

/// Runs that are replayed unless the request says otherwise.
const DEFAULT_RUNS: i64 = 1_000;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReplayRequest {
    /// Absent: the stored body.
    body: Option<String>,
    /// The newest runs that are replayed, 1 to 20,000. Default: 1,000.
    runs: Option<i64>,
}

/// Runs that differ in the same way.
#[derive(Debug, Serialize, JsonSchema)]
struct DifferenceGroup {
    kind: DifferenceKind,
    /// For a call the function, as `db.get`; for an answer the first field that differs, as `notes[].text`; for an error its text
    /// without numbers.
    place: String,
    /// Whether it is a call that changes something outside of the run.
    is_write: bool,
    runs: u64,
    /// The readable part of the arguments, or both values, of one of the runs.
    example: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ReplayReport {
    runs: u64,
    /// Runs that are equal to the byte: the answer or the error, and every call with its arguments.
    identical: u64,
    /// Runs that could not be replayed: they are of another version of the server, or of a body with the other version of the script API.
    skipped: u64,
    /// Whether all runs that were asked for were replayed. It ends after a minute.
    is_complete: bool,
    /// The most frequent ones first, 50 at most.
    differences: Vec<DifferenceGroup>,
    /// Mean instructions of the recorded runs; null when no run has counted them.
    recorded_instructions: Option<u64>,
    /// Mean instructions of the replayed runs.
    instructions: Option<u64>,
    /// The most instructions of a recorded run.
    max_recorded_instructions: Option<u64>,
    /// The most instructions of a replayed run.
    max_instructions: Option<u64>,
    /// Milliseconds that it took.
    took_ms: u64,
}

/// `POST /admin/scripts/{id}/replay`: runs a body on the recorded runs of a script, without effects, and compares.
pub async fn handle(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<ReplayRequest>,
) -> JsonResult<ReplayReport> {
    let id = request.param("id");
    let ReplayRequest { body, runs } = request.json()?;
    let limit = runs.unwrap_or(DEFAULT_RUNS);
    if !(1..=MAX_RUNS).contains(&limit) {
        return Err(Error::bad_request(format!("runs must be a number from 1 to {MAX_RUNS}")));
    }
    let trigger = Trigger::parse(id).map_err(|_| Error::not_found("script not found"))?;
    let stored = scripts::get(&app.db, id).await?.ok_or_else(|| Error::not_found("script not found"))?;
    let checked = libraries::check(&app, trigger, &body.unwrap_or(stored.body)).await?;
    let checked =
        checked.map_err(|failure| Error::bad_request(format!("the script does not load: {failure}")))?;
    if script_recordings::size(&app.db, id).await?.runs == 0 {
        return Err(Error::not_found(
            "no run of the script is recorded: start a recording, and wait for calls",
        ));
    }
    let _permit = app.scripting.dry_runs.acquire().await.map_err(Error::internal)?;
    let with_values = admin.may(Permission::ScriptVariablesRead);
    let runtime = &app.scripting.runtime;
    let replayer = Replayer::new(runtime.scripts.all(), &runtime.services.variables, with_values);
    Ok(Json(Box::pin(replay_all(&app, id, &checked.script, &replayer, limit)).await?))
}

async fn replay_all(
    app: &Arc<App>,
    id: &str,
    script: &Arc<CompiledScript>,
    replayer: &Replayer,
    limit: i64,
) -> Result<ReplayReport, Error> {
    let started = Instant::now();
    let (mut totals, mut left, mut before) = (Totals::default(), limit, i64::MAX);
    while left > 0 && started.elapsed() < MAX_TIME {
        let rows = script_recordings::runs(&app.db, id, before, PAGE.min(left)).await?;
        let Some(last) = rows.last() else {
            left = 0;
            break;
        };
        (before, left) = (last.id, left - rows.len() as i64);
        let replay =
            |row: RecordedRow| replay_one(Arc::clone(app), Arc::clone(script), replayer.clone(), row.data);
        let replays: Vec<_> = rows.into_iter().map(replay).collect();
        let mut replays = stream::iter(replays).buffer_unordered(TOGETHER);
        while let Some(replayed) = replays.next().await {
            totals.add(replayed?);
        }
    }
    Ok(totals.report(started, left == 0))
}

/// Replays a run; `None` for one that can't be.
async fn replay_one(
    app: Arc<App>,
    script: Arc<CompiledScript>,
    replayer: Replayer,
    data: Vec<u8>,
) -> Result<Option<Replayed>, Error> {
    // A task of its own, so that the second one runs on another processor.
    let replay = tokio::spawn(async move {
        let run = RecordedRun::decode(&data)?;
        Some(app.scripting.runtime.engine.replay(&script, Arc::new(run), &replayer).await)
    });
    let Some(replayed) = replay.await.map_err(Error::internal)? else { return Ok(None) };
    Ok(of_script(replayed)?.ok().flatten())
}

#[derive(Default)]
struct Instructions {
    runs: u64,
    sum: u64,
    max: u64,
}

impl Instructions {
    fn add(&mut self, run: u32) {
        self.runs += 1;
        self.sum += u64::from(run);
        self.max = self.max.max(run.into());
    }

    fn mean(&self) -> Option<u64> {
        self.sum.checked_div(self.runs)
    }

    fn max(&self) -> Option<u64> {
        (self.runs > 0).then_some(self.max)
    }
}

#[derive(Default)]
struct Totals {
    runs: u64,
    identical: u64,
    skipped: u64,
    groups: BTreeMap<(DifferenceKind, String, bool), (Difference, u64)>,
    recorded_instructions: Instructions,
    instructions: Instructions,
}

impl Totals {
    fn add(&mut self, replayed: Option<Replayed>) {
        self.runs += 1;
        let Some(Replayed { differences, recorded_instructions, instructions }) = replayed else {
            self.skipped += 1;
            return;
        };
        let counted = [
            (&mut self.recorded_instructions, recorded_instructions),
            (&mut self.instructions, instructions),
        ];
        for (total, run) in counted {
            if let Some(run) = run {
                total.add(run);
            }
        }
        if differences.is_empty() {
            self.identical += 1;
        }
        let mut seen = Vec::new();
        for difference in differences {
            let key = (difference.kind, difference.place.clone(), difference.is_write);
            // A run counts once in each group.
            if !seen.contains(&key) {
                self.groups.entry(key.clone()).or_insert((difference, 0)).1 += 1;
                seen.push(key);
            }
        }
    }

    fn report(self, started: Instant, is_complete: bool) -> ReplayReport {
        let group = |(difference, runs): (Difference, u64)| DifferenceGroup {
            kind: difference.kind,
            is_write: difference.is_write,
            place: difference.place,
            runs,
            example: difference.detail,
        };
        let mut differences: Vec<_> = self.groups.into_values().map(group).collect();
        differences.sort_by_key(|group| std::cmp::Reverse(group.runs));
        differences.truncate(MAX_GROUPS);
        ReplayReport {
            runs: self.runs,
            identical: self.identical,
            skipped: self.skipped,
            is_complete,
            differences,
            recorded_instructions: self.recorded_instructions.mean(),
            instructions: self.instructions.mean(),
            max_recorded_instructions: self.recorded_instructions.max(),
            max_instructions: self.instructions.max(),
            took_ms: started.elapsed().as_millis() as u64,
        }
    }
}
