//! The script engine: runs each Lua script in a fresh WebAssembly instance, isolated from the server and other runs.
//!
//! A script is compiled to bytecode once ([`Engine::check`] when it is saved, [`Engine::compile`] when it is
//! loaded at start), kept in the [`ScriptRegistry`] under its trigger, and run by [`Engine::run`]. Every bound on a run
//! is a constant in [`limits`]. Each capability of scripts is one file under `host/`, paired with one WIT file
//! (`wit/`) and one prelude file (`guest-lua/prelude/`). `docs/scripting.md` describes the API for script authors.

pub mod annotations;
mod bindings;
mod contract;
mod dry_run;
mod effects;
mod engine;
mod failure;
mod host;
mod invocation;
mod registry;
mod named_space;
pub mod limits;
pub mod mentions;
mod profile;
mod raised;
mod recording;
mod runtime;
mod schedule;
mod scheduling;
pub mod services;
#[cfg(test)]
mod tests;
mod unknown_names;

pub use dry_run::{DryLogLine, DryRun, DryRunOptions, DryRunReport, DryWrite};
pub use engine::{CheckedScript, Engine, EngineConfig, EngineError, prepare};
pub use failure::{FailureAnswer, FailureKind, ScriptFailure};
pub use invocation::{Invocation, Outcome, ReturnKind, TriggerEvent};
pub use profile::{ProfileCost, ProfileLine, ProfilePlace, RunProfile, SampledProfile};
pub use recording::{
    ChosenRecording, Difference, DifferenceKind, RecordedRun, Replayed, Replayer, RunRecorder, UnmaskedRun,
    mask,
};
pub use registry::{
    CompiledScript, OutputSample, Rollout, ScriptRegistry, ScriptSet, TallySnapshot, rollout_caller,
};
pub use runtime::ScriptRuntime;
pub use schedule::{InvalidSchedule, Schedule};
pub use scheduling::Lineage;
pub use services::{
    CallOutcome, EndedRun, HandleBudget, Index, IndexError, LogLine, LogSink, OutboundHttp, Profile,
    Profiles, RunObserver, ServerIndex, ServerLabels, ServerLog, ServerPlugins, Services, Variables, Xrpc,
    XrpcError,
};
pub use unknown_names::UnknownName;
