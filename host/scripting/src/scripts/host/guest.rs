//! Calls into the guest, and converts the generated types to the engine's.

use bytes::Bytes;
use wasmtime::component::{Component, Instance as WasmInstance, InstancePre, Linker};
use wasmtime::{Engine, Result, Store};

use super::contract_calls;
use super::state::RunState;
use super::stopped_guest::StoppedGuest;
use crate::scripts::bindings::belvedere::script::types::{
    Failure, FailureKind as Kind, Field as WitField, Raised, Shape as WitShape,
};
use crate::scripts::bindings::{Guest as ScriptBindings, GuestIndices};
use crate::scripts::contract::Contract;
use crate::scripts::failure::{FailureAnswer, FailureKind, FaultCode, ScriptFailure};
use crate::scripts::invocation::ReturnKind;
use crate::scripts::limits;
use crate::scripts::profile::RunProfile;
use crate::scripts::raised::{self, Field};
use crate::scripts::unknown_names::UnknownName;

/// The guest, linked and ready to be instantiated.
#[derive(Clone)]
pub(in crate::scripts) struct Guest {
    pre: InstancePre<RunState>,
    indices: GuestIndices,
    stopped: StoppedGuest,
}

/// One instance of the guest, in one store.
pub(in crate::scripts) struct Instance(ScriptBindings);

/// The inputs of a run besides its code.
pub(in crate::scripts) struct RunInputs {
    /// The JSON object of its globals, or in v3 of the arguments of `handle`.
    pub(in crate::scripts) globals: Vec<u8>,
    /// The JSON object for the start hooks of the prelude.
    pub(in crate::scripts) context: Vec<u8>,
    /// The seed of `math.random`.
    pub(in crate::scripts) seed: u64,
    /// Whether the limit of instructions is for each stretch between two calls of the host.
    pub(in crate::scripts) sliced: bool,
    pub(in crate::scripts) contract: Contract,
}

/// The value that a run returned.
pub(in crate::scripts) struct ReturnValue {
    pub(in crate::scripts) shape: ReturnKind,
    pub(in crate::scripts) body: Bytes,
}

/// A linker with every import that the contract has; the guest can't import anything else.
pub(in crate::scripts) fn linker(engine: &Engine) -> Result<Linker<RunState>> {
    let mut linker = Linker::new(engine);
    contract_calls::link(&mut linker)?;
    Ok(linker)
}

impl Guest {
    pub(in crate::scripts) fn link(engine: &Engine, component: &Component) -> Result<Self> {
        let pre = linker(engine)?.instantiate_pre(component)?;
        Ok(Self { indices: GuestIndices::new(&pre)?, pre, stopped: StoppedGuest::new(engine)? })
    }

    /// The guest, ready to be instantiated.
    pub(in crate::scripts) fn program(&self) -> &InstancePre<RunState> {
        &self.pre
    }

    /// The functions of an instance.
    pub(in crate::scripts) fn of(
        &self,
        instance: &WasmInstance,
        store: &mut Store<RunState>,
    ) -> Result<Instance> {
        Ok(Instance(self.indices.load(store, instance)?))
    }

    /// The number of instructions that an instance in the store has executed since its run began; `None` when it does
    /// not report it.
    pub(in crate::scripts) async fn instructions(&self, store: &mut Store<RunState>) -> Option<u32> {
        let left = self.stopped.instructions_left(store).await?;
        Some(limits::INSTRUCTIONS.saturating_sub(left))
    }

    /// The profile of a run of the profiled guest that has ended.
    pub(in crate::scripts) async fn profile(&self, store: &mut Store<RunState>) -> Option<RunProfile> {
        self.stopped.profile(store).await
    }

    /// The script's line at which an instance in the store stopped, after a call that did not return.
    pub(in crate::scripts) async fn script_line(&self, store: &mut Store<RunState>) -> Option<u32> {
        self.stopped.script_line(store).await
    }
}

impl Instance {
    pub(in crate::scripts) async fn compile(
        &self,
        store: &mut Store<RunState>,
        name: &str,
        source: &str,
    ) -> Result<Result<Bytes, ScriptFailure>> {
        let bytecode = self.0.call_compile(store, name, source.as_bytes()).await?;
        Ok(bytecode.map(Bytes::from).map_err(failure))
    }

    pub(in crate::scripts) async fn check(
        &self,
        store: &mut Store<RunState>,
        bytecode: &[u8],
        is_library: bool,
        contract: Contract,
    ) -> Result<Result<Vec<UnknownName>, ScriptFailure>> {
        let v3 = contract == Contract::V3;
        let checked = self.0.call_check(store, bytecode, limits::INSTRUCTIONS, is_library, v3).await?;
        Ok(checked.map(|checked| UnknownName::all(checked.unknown, &checked.known)).map_err(failure))
    }

    pub(in crate::scripts) async fn run(
        &self,
        store: &mut Store<RunState>,
        bytecode: &[u8],
        inputs: &RunInputs,
    ) -> Result<Result<ReturnValue, ScriptFailure>> {
        let RunInputs { globals, context, seed, sliced, contract } = inputs;
        let v3 = *contract == Contract::V3;
        let instructions = limits::INSTRUCTIONS;
        let reply = self
            .0
            .call_run(&mut *store, bytecode, globals, context, *seed, instructions, *sliced, v3)
            .await?;
        Ok(reply
            .map(|reply| ReturnValue {
                shape: match reply.shape {
                    WitShape::Nothing => ReturnKind::Nothing,
                    WitShape::Table => ReturnKind::Table,
                    WitShape::Other => ReturnKind::Other,
                },
                body: reply.body.into(),
            })
            .map_err(|mut failed| {
                let answer = failed.answer.and_then(|number| store.data().answer(number));
                let raised = failed.raised.take().map(raised_answer);
                let failure = ScriptFailure { answer, ..failure(failed) };
                match raised {
                    None => failure,
                    Some(Ok(answer)) => ScriptFailure { answer: Some(answer.into()), ..failure },
                    Some(Err(reason)) => {
                        let message = format!("{} is no answer: {reason}", failure.message);
                        ScriptFailure { message, ..failure }
                    }
                }
            }))
    }
}

fn raised_answer(raised: Raised) -> Result<FailureAnswer, String> {
    let field = |field| match field {
        WitField::Absent => Field::Absent,
        WitField::Text(text) => Field::Text(text),
        WitField::Other => Field::Other,
    };
    raised::answer(raised.status, field(raised.error), field(raised.message)).map(FailureAnswer::Raised)
}

fn failure(failure: Failure) -> ScriptFailure {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    ScriptFailure {
        kind: match failure.kind {
            Kind::Syntax => FailureKind::Syntax,
            Kind::MissingHandle => FailureKind::MissingHandle,
            Kind::Runtime => FailureKind::Runtime,
            Kind::Memory => FailureKind::Memory,
        },
        message: text(failure.message),
        line: failure.line,
        traceback: failure.traceback.map(text),
        fault: failure.fault.as_deref().and_then(FaultCode::parse),
        answer: None,
        retry_after: None,
    }
    .clipped()
}
