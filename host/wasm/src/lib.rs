//! The parts that the engines of scripts and plugins share.
//!
//! A room uses those above it in this list and none below (`tests/integration/layers/` checks it).

pub mod sandbox; // what scripts and plugins share: turns of the processor, compiled code on disk
