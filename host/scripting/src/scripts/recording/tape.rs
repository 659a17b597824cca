//! The tape of a run: records what crosses the contract, or answers from what was recorded.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::player::Player;
use super::run::{MAX_CALLS, MAX_RUN_BYTES, RecordedCall};
use crate::scripts::bindings::belvedere::script::types::Fault;

/// The tape of a run.
pub(in crate::scripts) enum Tape {
    Recording(Recorder),
    Replaying(Player),
}

/// The beginning of a call of the host.
pub(in crate::scripts) enum Begun<R> {
    /// The recording has the answer, or not.
    Answered(Result<R, Fault>),
    /// The host makes it. The encoded arguments, when it is recorded.
    Call(Option<Vec<u8>>),
}

/// Records the calls of a run.
#[derive(Default)]
pub(in crate::scripts) struct Recorder {
    calls: Vec<RecordedCall>,
    bytes: usize,
    /// Whether the run is not kept: it is too large, or about a space.
    is_dropped: bool,
    /// Secrets that the calls had at places where they are known to be.
    secrets: Vec<Vec<u8>>,
}

impl Recorder {
    /// Adds a call with its answer.
    pub(in crate::scripts) fn add(&mut self, name: &str, args: Vec<u8>, answer: Vec<u8>) {
        self.bytes += name.len() + args.len() + answer.len();
        if self.bytes > MAX_RUN_BYTES || self.calls.len() >= MAX_CALLS {
            self.drop_run();
        }
        if !self.is_dropped {
            self.calls.push(RecordedCall { name: name.to_owned(), args, answer });
        }
    }

    /// Adds the calls that another recorder has, with their secrets.
    pub(in crate::scripts) fn append(&mut self, other: Self) {
        self.secrets.extend(other.secrets);
        for RecordedCall { name, args, answer } in other.calls {
            self.add(&name, args, answer);
        }
        if other.is_dropped {
            self.drop_run();
        }
    }

    /// Says that a value that the calls have is a secret.
    pub(in crate::scripts) fn add_secret(&mut self, secret: &[u8]) {
        self.secrets.push(secret.to_vec());
    }

    /// Says that the run is not kept.
    pub(in crate::scripts) fn drop_run(&mut self) {
        self.is_dropped = true;
        self.calls = Vec::new();
    }

    /// The calls and the secrets; `None` when the run is not kept.
    pub(in crate::scripts) fn finish(self) -> Option<(Vec<RecordedCall>, Vec<Vec<u8>>)> {
        (!self.is_dropped).then_some((self.calls, self.secrets))
    }
}

impl Tape {
    /// Begins a call: the answer of the recording, or the arguments to record.
    pub(in crate::scripts) fn begin<R: DeserializeOwned>(
        &mut self,
        name: &str,
        args: &impl Serialize,
    ) -> Begun<R> {
        match self {
            Self::Recording(recorder) => Begun::Call((!recorder.is_dropped).then(|| encode(args))),
            Self::Replaying(player) => Begun::Answered(player.answer(name, encode(args))),
        }
    }
}

/// The bytes of a value that crosses the contract.
pub(in crate::scripts) fn encode(value: &impl Serialize) -> Vec<u8> {
    // The contract's types always serialize.
    postcard::to_allocvec(value).unwrap_or_default()
}
