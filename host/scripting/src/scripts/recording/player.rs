//! Answers the calls of a run from a recording.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::masks::{FoundSecrets, VariableMasks};
use super::replay::{Difference, DifferenceKind};
use super::run::{RecordedResult, RecordedRun};
use super::writes::is_write;
use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};

/// Differences of one run that are kept: a loop can ask for a thousand things that were not recorded.
const MAX_DIFFERENCES: usize = 20;

/// Characters of arguments that a difference shows.
const MAX_SHOWN: usize = 120;

/// Answers calls in the order of the recorded calls with the same name and arguments.
pub(in crate::scripts) struct Player {
    run: Arc<RecordedRun>,
    /// The recorded calls that were not asked for yet, by name and arguments.
    left: HashMap<(String, Vec<u8>), VecDeque<usize>>,
    differences: Vec<Difference>,
    masks: Arc<VariableMasks>,
    found: FoundSecrets,
    is_readable: bool,
}

/// The calls of a replayed run.
pub(in crate::scripts) struct Played {
    pub(in crate::scripts) differences: Vec<Difference>,
    /// Whether the recorded answers could be read: another version of the server may have written them.
    pub(in crate::scripts) is_readable: bool,
    /// The result without secrets.
    pub(in crate::scripts) result: RecordedResult,
}

impl Player {
    pub(in crate::scripts) fn new(run: Arc<RecordedRun>, masks: Arc<VariableMasks>) -> Self {
        let mut left: HashMap<_, VecDeque<usize>> = HashMap::new();
        for (at, call) in run.calls.iter().enumerate() {
            left.entry((call.name.clone(), call.args.clone())).or_default().push_back(at);
        }
        let found = FoundSecrets::default();
        Self { run, left, differences: Vec::new(), masks, found, is_readable: true }
    }

    /// The recorded answer to a call. One that the recording does not have is a difference, and a fault for the script.
    pub(super) fn answer<R: DeserializeOwned>(&mut self, name: &str, mut args: Vec<u8>) -> Result<R, Fault> {
        self.masks.mask_part(&mut args, &mut self.found);
        let key = (name.to_owned(), args);
        let Some(at) = self.left.get_mut(&key).and_then(VecDeque::pop_front) else {
            self.add(DifferenceKind::Asked, name, &key.1);
            return Err(not_recorded(name));
        };
        self.decode(at).unwrap_or_else(|| Err(not_recorded(name)))
    }

    /// The recorded answer to a call that can't fail; the last one of its kind when all were given.
    pub(in crate::scripts) fn value<R: DeserializeOwned>(&mut self, name: &str) -> Option<R> {
        let key = (name.to_owned(), Vec::new());
        let next = self.left.get_mut(&key).and_then(VecDeque::pop_front);
        let at = next.or_else(|| {
            self.add(DifferenceKind::Asked, name, &[]);
            self.run.calls.iter().rposition(|call| call.name == name)
        });
        self.decode(at?)
    }

    fn decode<R: DeserializeOwned>(&mut self, at: usize) -> Option<R> {
        let decoded = self.run.calls.get(at).and_then(|call| postcard::from_bytes(&call.answer).ok());
        self.is_readable &= decoded.is_some();
        decoded
    }

    /// The differences so far, and those recorded calls that were not asked for.
    pub(in crate::scripts) fn finish(mut self, mut result: RecordedResult) -> Played {
        for part in result.parts() {
            self.masks.mask_part(part, &mut self.found);
        }
        let mut left: Vec<usize> = std::mem::take(&mut self.left).into_values().flatten().collect();
        left.sort_unstable();
        let run = Arc::clone(&self.run);
        for call in left.into_iter().filter_map(|at| run.calls.get(at)) {
            self.add(DifferenceKind::NotAsked, &call.name, &call.args);
        }
        let Self { differences, is_readable, .. } = self;
        Played { differences, is_readable, result }
    }

    fn add(&mut self, kind: DifferenceKind, name: &str, args: &[u8]) {
        if self.differences.len() < MAX_DIFFERENCES {
            let is_write = is_write(name, args);
            let (place, detail) = (name.to_owned(), shown(args));
            self.differences.push(Difference { kind, place, detail, is_write });
        }
    }
}

/// The fault of a call that the recording does not have.
fn not_recorded(name: &str) -> Fault {
    Fault {
        code: FaultCode::Unavailable,
        message: format!("{name}: the recording has no such call"),
        status: None,
        answer: None,
    }
}

/// The readable parts of encoded arguments.
fn shown(args: &[u8]) -> String {
    let text = String::from_utf8_lossy(&args[..args.len().min(4 * MAX_SHOWN)]);
    let readable = |c: char| if c.is_control() || c == char::REPLACEMENT_CHARACTER { ' ' } else { c };
    let text: String = text.chars().map(readable).take(MAX_SHOWN).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
