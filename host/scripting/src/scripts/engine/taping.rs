//! Records runs, and runs scripts on recorded ones (`docs/adr/0168-recordings-are-made-at-the-contract.md`).

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::Engine;
use super::instance_run::{RunReport, check_result};
use crate::scripts::contract::Contract;
use crate::scripts::host::{ReturnValue, RunInfo, RunInputs, RunState};
use crate::scripts::invocation::ReturnKind;
use crate::scripts::recording::{
    Played, Player, RecordedResult, RecordedRun, Recorder, Replayed, Replayer, Tape, UnmaskedRun,
    compare_results,
};
use crate::scripts::{CompiledScript, FailureAnswer, FailureKind, ScriptFailure, Services};
use belvedere_base::clock::{Clock, Timestamp};

/// A run that is recorded.
pub(super) struct Recording {
    started_at: Timestamp,
}

impl Recording {
    /// The recording of a run that begins now, if it is recorded: no dry run, no job, no profiled run. The state is passed on, because
    /// one that was borrowed would take its size in the future of the run.
    pub(super) fn begin(services: &Services, mut state: RunState) -> (RunState, Option<Self>) {
        let is_other = services.effects.dry_run().is_some() || state.factor() > 1 || state.is_profiled();
        let recorder = services.recorder.as_ref().filter(|_| !is_other);
        let started_at = recorder.and_then(|recorder| recorder.takes(state.trigger(), services.clock.now()));
        if started_at.is_some() {
            state.tape = Some(Box::new(Tape::Recording(Recorder::default())));
        }
        (state, started_at.map(|started_at| Self { started_at }))
    }

    /// Hands the run over that has ended.
    pub(super) fn keep(
        self,
        script: &CompiledScript,
        services: &Services,
        inputs: RunInputs,
        tape: Option<Box<Tape>>,
        (result, instructions): (RecordedResult, Option<u32>),
    ) {
        let (Some(recorder), Some(Tape::Recording(tape))) = (&services.recorder, tape.map(|tape| *tape))
        else {
            return;
        };
        // The same run could end otherwise a moment later.
        let is_ours =
            |kind: &str| [FailureKind::Busy, FailureKind::Internal].iter().any(|ours| ours.as_str() == kind);
        if matches!(&result, RecordedResult::Failed { kind, .. } if is_ours(kind)) {
            return;
        }
        let Some((calls, secrets)) = tape.finish() else { return };
        let RunInputs { globals, context, seed, contract, .. } = inputs;
        let run = RecordedRun {
            version: script.version(),
            is_v3: contract == Contract::V3,
            globals,
            env_at: 0,
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
pub(super) fn recorded(result: Result<&ReturnValue, &ScriptFailure>) -> RecordedResult {
    match result {
        Ok(ReturnValue { shape, body }) => RecordedResult::Returned {
            shape: match shape {
                ReturnKind::Nothing => 0,
                ReturnKind::Table => 1,
                ReturnKind::Other => 2,
            },
            body: body.to_vec(),
        },
        Err(failure) => RecordedResult::Failed {
            kind: failure.kind.as_str().to_owned(),
            message: failure.message.clone().into_bytes(),
            raised: match failure.answer.as_deref() {
                Some(FailureAnswer::Raised(answer)) => Some((answer.status.as_u16(), answer.body.to_vec())),
                // Answers of other servers and of ours are among the recorded ones.
                Some(FailureAnswer::Upstream(_) | FailureAnswer::Own(_)) | None => None,
            },
        },
    }
}

impl Engine {
    /// Runs a script on a recorded run, without effects: every call of the host is answered by the recording. `None` when the
    /// recording can't be read, because another version of the server made it, or has the arguments of the other contract.
    ///
    /// # Errors
    /// When the script does not compile, or there is no instance for it.
    pub async fn replay(
        &self,
        script: &CompiledScript,
        run: Arc<RecordedRun>,
        replayer: &Replayer,
    ) -> Result<Option<Replayed>, ScriptFailure> {
        let bytecode = script.bytecode.as_ref().map_err(Clone::clone)?;
        let Some(globals) = run.with_env(replayer.masks.env(replayer.with_values)) else { return Ok(None) };
        if run.is_v3 != (script.contract == Contract::V3) {
            return Ok(None);
        }
        let info = RunInfo::check(Arc::clone(&script.name), script.trigger.kind());
        let mut state =
            RunState::without_services(info, Clock::fixed(Timestamp(0)), Arc::clone(&self.0.tids))
                .with_scripts(Arc::clone(&replayer.scripts));
        let player = Player::new(Arc::clone(&run), Arc::clone(&replayer.masks));
        state.tape = Some(Box::new(Tape::Replaying(player)));
        let inputs = RunInputs {
            globals,
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
        match &returned {
            Err(failure) if failure.kind == FailureKind::Busy => return Err(failure.clone()),
            // The guest can't read its inputs.
            Err(failure) if failure.kind == FailureKind::Internal => return Ok(None),
            _ => {}
        }
        let Some(Tape::Replaying(player)) = tape.map(|tape| *tape) else { return Ok(None) };
        let Played { mut differences, is_readable, result } = player.finish(recorded(returned.as_ref()));
        if !is_readable {
            return Ok(None);
        }
        if let Some(difference) = compare_results(&run.result, &result) {
            differences.insert(0, difference);
        }
        Ok(Some(Replayed { differences, recorded_instructions: run.instructions, instructions }))
    }
}
