//! Runs one case: its test file in a sandbox of its own, on an application of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::places::Places;
use super::host::{TestMethods, caller};
use super::prepare::Prepared;
use super::suite::{Case, Suite};
use super::world::World;
use belvedere_scripting::scripts::{FailureKind, Invocation, ScriptFailure};

/// The time of a case, which the run's own limits leave: a job that it runs may wait.
const MAX_TIME: Duration = Duration::from_secs(62);

/// The end of a case.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) duration: Duration,
    pub(super) failed: Option<Failed>,
}

/// The reason why a case failed.
#[derive(Debug, Default)]
pub(super) struct Failed {
    /// The line of the test file.
    pub(super) line: Option<u32>,
    pub(super) message: String,
    /// The failures of scripts, and the log lines.
    pub(super) notes: Vec<String>,
}

/// Runs a case. `number` is unique among the cases.
pub(super) async fn run(
    case: &Case,
    number: usize,
    suite: &Suite,
    prepared: &Prepared,
    places: &Places,
) -> Outcome {
    let started = Instant::now();
    let failed = match prepared.next(number).await {
        Err(error) => Some(Failed { message: format!("the case can't run: {error:#}"), ..Failed::default() }),
        Ok(world) => {
            let failed = in_world(case, suite, &world).await.err();
            let failed = failed.map(|failed| failed.with_places(places));
            prepared.end(world, number).await;
            failed
        }
    };
    Outcome { duration: started.elapsed(), failed }
}

async fn in_world(case: &Case, suite: &Suite, world: &World) -> Result<(), Failed> {
    let script = &case.file.script;
    let runtime = &world.app.scripting.runtime;
    let services = runtime
        .services
        .clone()
        .with_scripts(Arc::clone(&suite.libraries))
        .with_xrpc(Arc::new(TestMethods(world.clone())));
    let input = format!("{{\"case\":{}}}", case.number);
    let caller = caller();
    let invocation =
        Invocation { input: Some(input.as_bytes()), caller: Some(&caller), ..Invocation::default() };
    let ran = Box::pin(runtime.engine.run(script, invocation, &services));
    let ran = tokio::time::timeout(MAX_TIME, ran).await.unwrap_or_else(|_| {
        Err(ScriptFailure::new(FailureKind::Limit, "the test waited for longer than a minute"))
    });
    let unanswered = world.seen.all_unanswered();
    let failed = match (ran, unanswered.into_iter().next()) {
        (Err(failure), _) => of_run(&failure, script.trigger().id()),
        (Ok(_), Some(message)) => Failed { message, ..Failed::default() },
        (Ok(_), None) => return Ok(()),
    };
    let mut notes = failed.notes;
    for failure in world.seen.failures(script.trigger().id()) {
        notes.push(format!("a script failed: {}", failure.message));
    }
    notes.extend(world.seen.log_lines());
    Err(Failed { notes, ..failed })
}

/// The failure of the run of a test file.
fn of_run(failure: &ScriptFailure, trigger: &str) -> Failed {
    let position = failure.message.strip_prefix(trigger).and_then(|rest| rest.strip_prefix(':'));
    let at = position.and_then(|rest| rest.split_once(": "));
    match at.and_then(|(line, rest)| Some((line.parse().ok()?, rest))) {
        Some((line, message)) => Failed { line: Some(line), message: message.to_owned(), notes: Vec::new() },
        None => Failed { line: failure.line, message: failure.message.clone(), notes: Vec::new() },
    }
}

impl Failed {
    fn with_places(self, places: &Places) -> Self {
        let notes = self.notes.iter().map(|note| places.replace(note)).collect();
        Self { message: places.replace(&self.message), notes, ..self }
    }
}
