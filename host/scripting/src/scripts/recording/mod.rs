//! Records the runs of chosen scripts, and runs another body on what was recorded
//! (`docs/adr/0168-recordings-are-made-at-the-contract.md`).
//!
//! A recorded run has everything that crossed the contract with the guest, in order: its inputs, the answers of the host, and its
//! result. [`mask()`] replaces secrets before anything is stored.

mod compared;
mod mask;
mod masks;
mod player;
mod recorder;
mod replay;
mod run;
mod secrets;
mod tape;
mod writes;

pub(super) use compared::compare_results;
pub use mask::mask;
pub(super) use masks::conceal;
pub(super) use player::{Played, Player};
pub use recorder::{ChosenRecording, RunRecorder, UnmaskedRun};
pub use replay::{Difference, DifferenceKind, Replayed, Replayer};
pub(super) use run::RecordedResult;
pub use run::RecordedRun;
pub(super) use tape::{Begun, Recorder, Tape, encode};
