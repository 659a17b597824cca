//! `POST /admin/scripts/{id}/replay`: runs a body on the recorded runs of a script, without effects, and compares.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::{StreamExt, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::libraries::{self, of_script};
use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_protocol::trigger::Trigger;
use belvedere_scripting::scripts::{
    CompiledScript, Difference, DifferenceKind, RecordedRun, Replayed, ScriptSet,
};
use belvedere_storage::store::script_recordings::{self, MAX_RUNS, RecordedRow};
use belvedere_storage::store::scripts;
use belvedere_web::http::Error;

/// Runs that are read at once: they have 8 MiB at most.
const PAGE: i64 = 16;

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
    /// The function that is or is not called, as `db.get`; empty for answers and errors.
    call: String,
    /// Whether the call changes something outside of the run.
    is_write: bool,
    runs: u64,
    /// Of one of them: the readable part of the arguments, or both values.
    example: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ReplayReport {
    runs: u64,
    /// Runs that are equal to the byte: the answer or the error, and every call with its arguments.
    identical: u64,
    /// Runs that could not be replayed: they are of another version of the server, or the script's arguments were others.
    skipped: u64,
    /// The most frequent ones first, 50 at most.
    differences: Vec<DifferenceGroup>,
    /// Mean instructions of the recorded runs, and of the replayed ones; null when no run has counted them.
    recorded_instructions: Option<u64>,
    instructions: Option<u64>,
    /// Milliseconds that it took.
    took_ms: u64,
}

pub async fn handle(
    app: Arc<App>,
    _admin: Admin,
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
    let checked = checked.map_err(|failure| Error::bad_request(format!("the script does not load: {failure}")))?;
    if script_recordings::size(&app.db, id).await?.runs == 0 {
        return Err(Error::not_found("no run of the script is recorded: start a recording, and wait for calls"));
    }
    let _permit = app.scripting.dry_runs.acquire().await.map_err(Error::internal)?;
    Ok(Json(Box::pin(replay_all(&app, id, &checked.script, limit)).await?))
}

async fn replay_all(
    app: &Arc<App>,
    id: &str,
    script: &Arc<CompiledScript>,
    limit: i64,
) -> Result<ReplayReport, Error> {
    let (started, libraries) = (Instant::now(), app.scripting.runtime.scripts.all());
    let (mut totals, mut left, mut before) = (Totals::default(), limit, i64::MAX);
    while left > 0 {
        let rows = script_recordings::runs(&app.db, id, before, PAGE.min(left)).await?;
        let Some(last) = rows.last() else { break };
        (before, left) = (last.id, left - rows.len() as i64);
        let replay =
            |row: RecordedRow| replay_one(Arc::clone(app), Arc::clone(script), Arc::clone(&libraries), row.data);
        let replays: Vec<_> = rows.into_iter().map(replay).collect();
        let mut replays = stream::iter(replays).buffer_unordered(TOGETHER);
        while let Some(replayed) = replays.next().await {
            totals.add(replayed?);
        }
    }
    Ok(totals.report(started))
}

/// Replays a run; `None` for one that can't be.
async fn replay_one(
    app: Arc<App>,
    script: Arc<CompiledScript>,
    libraries: Arc<ScriptSet>,
    data: Vec<u8>,
) -> Result<Option<Replayed>, Error> {
    // A task of its own, so that the second one runs on another processor.
    let replay = tokio::spawn(async move {
        let run = RecordedRun::decode(&data)?;
        Some(app.scripting.runtime.engine.replay(&script, Arc::new(run), libraries).await)
    });
    let Some(replayed) = replay.await.map_err(Error::internal)? else { return Ok(None) };
    Ok(of_script(replayed)?.ok())
}

#[derive(Default)]
struct Totals {
    runs: u64,
    identical: u64,
    skipped: u64,
    groups: BTreeMap<(DifferenceKind, String), (Difference, u64)>,
    recorded_instructions: (u64, u64),
    instructions: (u64, u64),
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
                *total = (total.0 + u64::from(run), total.1 + 1);
            }
        }
        if differences.is_empty() {
            self.identical += 1;
        }
        let mut seen = Vec::new();
        for difference in differences {
            let key = (difference.kind, difference.call.clone());
            // A run counts once in each group.
            if !seen.contains(&key) {
                self.groups.entry(key.clone()).or_insert((difference, 0)).1 += 1;
                seen.push(key);
            }
        }
    }

    fn report(self, started: Instant) -> ReplayReport {
        let group = |(difference, runs): (Difference, u64)| DifferenceGroup {
            kind: difference.kind,
            is_write: difference.is_write(),
            call: difference.call,
            runs,
            example: difference.detail,
        };
        let mut differences: Vec<_> = self.groups.into_values().map(group).collect();
        differences.sort_by_key(|group| std::cmp::Reverse(group.runs));
        differences.truncate(MAX_GROUPS);
        let mean = |(sum, runs): (u64, u64)| sum.checked_div(runs);
        ReplayReport {
            runs: self.runs,
            identical: self.identical,
            skipped: self.skipped,
            differences,
            recorded_instructions: mean(self.recorded_instructions),
            instructions: mean(self.instructions),
            took_ms: started.elapsed().as_millis() as u64,
        }
    }
}
