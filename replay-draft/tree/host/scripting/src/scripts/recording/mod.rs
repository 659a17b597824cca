//! Records the runs of chosen scripts, and runs another body on what was recorded
//! (`docs/adr/0168-recordings-are-made-at-the-contract.md`).
//!
//! A recorded run has everything that crossed the contract with the guest, in order: its inputs, the answers of the host, and its
//! result. [`mask`] replaces secrets before anything is stored.

mod mask;
mod player;
mod recorder;
mod replay;
mod run;
mod tape;

pub use mask::mask;
pub(super) use mask::{mask_alone, mask_message};
pub(super) use player::Player;
pub use recorder::{ChosenRecording, RunRecorder, UnmaskedRun};
pub use replay::{Difference, DifferenceKind, Replayed};
pub use run::RecordedRun;
pub(super) use run::RecordedResult;
pub(super) use tape::{Begun, Recorder, Tape, encode};
