//! Records runs, and runs scripts on recorded ones (`docs/adr/0168-recordings-are-made-at-the-contract.md`).

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::Engine;
use super::instance_run::{RunReport, check_result};
use crate::scripts::contract::Contract;
use crate::scripts::host::{RunInfo, RunInputs, RunState};
use crate::scripts::invocation::ReturnKind;
use crate::scripts::recording::{
    Difference, DifferenceKind, Player, RecordedResult, RecordedRun, Recorder, Replayed, Tape, UnmaskedRun, mask_alone,
    mask_message,
};
use crate::scripts::{CompiledScript, FailureKind, ScriptFailure, ScriptSet, Services};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::error_text::cut;

/// Bytes of an answer or an error that a difference shows.
const MAX_SHOWN: usize = 160;

/// A run that is recorded.
pub(super) struct Recording {
    started_at: Timestamp,
}

impl Recording {
    /// The recording of a run that begins now, if it is recorded: no dry run, no job, no profiled run.
    pub(super) fn of(info: &RunInfo, services: &Services, state: &mut RunState) -> Option<Self> {
        let recorder = services.recorder.as_ref()?;
        if services.effects.dry_run().is_some() || info.kind.is_long() || state.is_profiled() {
            return None;
        }
        let started_at = recorder.takes(&info.trigger, services.clock.now())?;
        state.tape = Some(Tape::Recording(Recorder::default()));
        Some(Self { started_at })
    }

    /// Hands the run over that has ended.
    pub(super) fn keep(
        self,
        script: &CompiledScript,
        services: &Services,
        inputs: RunInputs,
        tape: Option<Tape>,
        (result, instructions): (RecordedResult, Option<u32>),
    ) {
        let (Some(recorder), Some(Tape::Recording(tape))) = (&services.recorder, tape) else { return };
        let Some((calls, secrets)) = tape.finish() else { return };
        let RunInputs { globals, context, seed, contract, .. } = inputs;
        let run = RecordedRun {
            version: script.version(),
            is_v3: contract == Contract::V3,
            globals,
            context,
            seed,
            calls,
            result,
            instructions,
        };
        let (trigger, at) = (Arc::clone(&script.name), services.clock.now());
        recorder.keep(UnmaskedRun { trigger, started_at: self.started_at, at, run, secrets });
    }
}

/// The end of a run as it is recorded.
pub(super) fn recorded(result: &Result<(ReturnKind, bytes::Bytes), ScriptFailure>) -> RecordedResult {
    match result {
        Ok((shape, body)) => RecordedResult::Returned {
            shape: match shape {
                ReturnKind::Nothing => 0,
                ReturnKind::Table => 1,
                ReturnKind::Other => 2,
            },
            body: body.to_vec(),
        },
        Err(failure) => RecordedResult::Failed {
            kind: failure.kind.as_str().to_owned(),
            message: failure.message.clone(),
        },
    }
}

impl Engine {
    /// Runs a script on a recorded run, without effects: every call of the host is answered by the recording. `scripts` has the
    /// libraries.
    ///
    /// # Errors
    /// When the script does not compile, there is no instance for it, or the run was recorded with the other contract.
    pub async fn replay(
        &self,
        script: &CompiledScript,
        run: Arc<RecordedRun>,
        scripts: Arc<ScriptSet>,
    ) -> Result<Replayed, ScriptFailure> {
        let bytecode = script.bytecode.as_ref().map_err(Clone::clone)?;
        if run.is_v3 != (script.contract == Contract::V3) {
            let message = "the run was recorded with the other contract: v2 and v3 scripts have other arguments";
            return Err(ScriptFailure::new(FailureKind::Runtime, message));
        }
        let info = RunInfo::check(Arc::clone(&script.name), script.trigger.kind());
        let mut state = RunState::without_services(info, Clock::fixed(Timestamp(0)), Arc::clone(&self.0.tids))
            .with_scripts(scripts);
        state.tape = Some(Tape::Replaying(Player::new(Arc::clone(&run))));
        let inputs = RunInputs {
            globals: run.globals.clone(),
            context: run.context.clone(),
            seed: run.seed,
            sliced: false,
            contract: script.contract,
        };
        let fuel = AtomicU64::new(0);
        let work = self.run_in_instance(state, &fuel, async |instance, store| {
            instance.run(store, bytecode, &inputs).await
        });
        let RunReport { result, instructions, tape, .. } = Box::pin(work).await?;
        let returned = result.and_then(|returned| check_result(&returned.body).map(|()| returned));
        let returned = returned.map_err(|failure| script.contract.failure(failure.located(&script.trigger)));
        if let Err(failure) = &returned
            && matches!(failure.kind, FailureKind::Busy | FailureKind::Internal)
        {
            return Err(failure.clone());
        }
        let result = match recorded(&returned.map(|returned| (returned.shape, returned.body))) {
            RecordedResult::Returned { shape, mut body } => {
                mask_alone(&mut body);
                RecordedResult::Returned { shape, body }
            }
            RecordedResult::Failed { kind, message } => {
                RecordedResult::Failed { kind, message: mask_message(message) }
            }
        };
        let mut differences = result_difference(&run.result, &result).into_iter().collect::<Vec<_>>();
        if let Some(Tape::Replaying(player)) = tape {
            differences.extend(player.finish());
        }
        Ok(Replayed { differences, recorded_instructions: run.instructions, instructions })
    }
}

fn result_difference(before: &RecordedResult, now: &RecordedResult) -> Option<Difference> {
    if before == now {
        return None;
    }
    let is_answer = matches!((before, now), (RecordedResult::Returned { .. }, RecordedResult::Returned { .. }));
    let kind = if is_answer { DifferenceKind::Answer } else { DifferenceKind::Error };
    let shown = |result: &RecordedResult| match result {
        RecordedResult::Returned { body, .. } => String::from_utf8_lossy(body).into_owned(),
        RecordedResult::Failed { message, .. } => message.clone(),
    };
    let [mut before, mut now] = [shown(before), shown(now)];
    cut(&mut before, MAX_SHOWN);
    cut(&mut now, MAX_SHOWN);
    let detail = format!("{before} → {now}");
    Some(Difference { kind, call: String::new(), detail })
}
