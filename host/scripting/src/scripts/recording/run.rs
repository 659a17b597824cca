//! A recorded run, and its bytes.

use serde::{Deserialize, Serialize};

/// Bytes of a recorded run: a page of 100 records of a few KiB each fits in. A run that has more is not kept.
pub(super) const MAX_RUN_BYTES: usize = 512 << 10;

/// Calls of the host in a recorded run.
pub(super) const MAX_CALLS: usize = 1_000;

/// The first byte of a recorded run. Runs of another format are not read.
const FORMAT: u8 = 2;

/// The inputs, the calls of the host and the result of one run, as they crossed the contract with the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRun {
    /// The version of the script, as `revision 3`.
    pub version: Option<String>,
    /// Whether its arguments are those of v3.
    pub(in crate::scripts) is_v3: bool,
    /// JSON of the globals, or in v3 of the arguments, without the value of `env`.
    pub(in crate::scripts) globals: Vec<u8>,
    /// The place of the value of `env`.
    pub(in crate::scripts) env_at: u32,
    /// JSON for the start hooks of the prelude.
    pub(in crate::scripts) context: Vec<u8>,
    /// The seed of `math.random`.
    pub(in crate::scripts) seed: u64,
    pub(in crate::scripts) calls: Vec<RecordedCall>,
    pub(in crate::scripts) result: RecordedResult,
    pub(in crate::scripts) instructions: Option<u32>,
}

/// A call of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::scripts) struct RecordedCall {
    /// The interface and the function, as `db.get`.
    pub(in crate::scripts) name: String,
    pub(in crate::scripts) args: Vec<u8>,
    pub(in crate::scripts) answer: Vec<u8>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::scripts) enum RecordedResult {
    /// JSON of the value that `handle` returned, and its shape.
    Returned { shape: u8, body: Vec<u8> },
    /// The kind and the message of the failure, and the status and the body of the answer that the script raised.
    Failed { kind: String, message: Vec<u8>, raised: Option<(u16, Vec<u8>)> },
}

impl RecordedResult {
    /// Each part of the result that can have a secret.
    pub(in crate::scripts) fn parts(&mut self) -> impl Iterator<Item = &mut Vec<u8>> {
        let (first, second) = match self {
            Self::Returned { body, .. } => (body, None),
            Self::Failed { message, raised, .. } => (message, raised.as_mut().map(|(_, body)| body)),
        };
        [first].into_iter().chain(second)
    }
}

impl Default for RecordedResult {
    fn default() -> Self {
        Self::Returned { shape: 0, body: Vec::new() }
    }
}

impl RecordedRun {
    /// The bytes to store; `None` when there are more than [`MAX_RUN_BYTES`].
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![FORMAT];
        bytes.extend(postcard::to_allocvec(self).ok()?);
        (bytes.len() <= MAX_RUN_BYTES).then_some(bytes)
    }

    /// Reads stored bytes. `None` when they are no recorded run, or one of another format.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (format, rest) = bytes.split_first()?;
        if *format != FORMAT || bytes.len() > MAX_RUN_BYTES {
            return None;
        }
        let (run, left): (Self, _) = postcard::take_from_bytes(rest).ok()?;
        (left.is_empty() && run.calls.len() <= MAX_CALLS).then_some(run)
    }

    /// JSON of the globals with this value of `env`. `None` when there is no place for it.
    pub(in crate::scripts) fn with_env(&self, env: &[u8]) -> Option<Vec<u8>> {
        let (before, after) = self.globals.split_at_checked(self.env_at as usize)?;
        Some([before, env, after].concat())
    }

    /// Each part of the run that can have a secret.
    pub(super) fn parts(&mut self) -> impl Iterator<Item = &mut Vec<u8>> {
        let calls = self.calls.iter_mut().flat_map(|call| [&mut call.args, &mut call.answer]);
        [&mut self.globals].into_iter().chain(calls).chain(self.result.parts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_run_reads_back_and_broken_bytes_are_refused(
            globals in proptest::collection::vec(any::<u8>(), 0..50),
            args in proptest::collection::vec(any::<u8>(), 0..50),
            seed: u64,
            broken in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let call = RecordedCall { name: "db.get".to_owned(), args, answer: globals.clone() };
            let run = RecordedRun { globals, seed, calls: vec![call], ..RecordedRun::default() };
            let bytes = run.encode().unwrap();
            prop_assert_eq!(RecordedRun::decode(&bytes), Some(run));
            prop_assert_eq!(RecordedRun::decode(&bytes[..bytes.len() - 1]), None);
            RecordedRun::decode(&broken);
            RecordedRun::decode(&[&[FORMAT], &*broken].concat());
        }
    }

    #[test]
    fn a_run_that_is_too_large_is_not_kept() {
        let run = RecordedRun { globals: vec![0; MAX_RUN_BYTES], ..RecordedRun::default() };
        assert_eq!(run.encode(), None);
    }
}
