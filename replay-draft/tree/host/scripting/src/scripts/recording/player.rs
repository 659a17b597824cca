//! Answers the calls of a run from a recording.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::replay::{Difference, DifferenceKind};
use super::run::RecordedRun;
use super::tape::not_recorded;
use crate::scripts::bindings::belvedere::script::types::Fault;

/// Differences of one run that are kept: a loop can ask for a thousand things that were not recorded.
const MAX_DIFFERENCES: usize = 20;

/// Bytes of arguments that a difference shows.
const MAX_SHOWN: usize = 120;

/// Answers calls in the order of the recorded calls with the same name and arguments.
pub(in crate::scripts) struct Player {
    run: Arc<RecordedRun>,
    /// The recorded calls that were not asked for yet, by name and arguments.
    left: HashMap<(String, Vec<u8>), VecDeque<usize>>,
    differences: Vec<Difference>,
}

impl Player {
    pub(in crate::scripts) fn new(run: Arc<RecordedRun>) -> Self {
        let mut left: HashMap<_, VecDeque<usize>> = HashMap::new();
        for (at, call) in run.calls.iter().enumerate() {
            left.entry((call.name.clone(), call.args.clone())).or_default().push_back(at);
        }
        Self { run, left, differences: Vec::new() }
    }

    /// The recorded answer to a call. One that the recording does not have is a difference, and a fault for the script.
    pub(super) fn answer<R: DeserializeOwned>(&mut self, name: &str, args: &[u8]) -> Result<R, Fault> {
        let found = self.left.get_mut(&(name.to_owned(), args.to_vec())).and_then(VecDeque::pop_front);
        let decoded = found.and_then(|at| postcard::from_bytes(&self.run.calls.get(at)?.answer).ok());
        decoded.unwrap_or_else(|| {
            self.add(DifferenceKind::Asked, name, args);
            Err(not_recorded(name))
        })
    }

    /// The recorded answer to a call that can't fail; the last one of its kind when all were given.
    pub(in crate::scripts) fn value<R: DeserializeOwned>(&mut self, name: &str) -> Option<R> {
        let key = (name.to_owned(), Vec::new());
        let next = self.left.get_mut(&key).and_then(VecDeque::pop_front);
        let at = next.or_else(|| {
            self.add(DifferenceKind::Asked, name, &[]);
            self.run.calls.iter().rposition(|call| call.name == name)
        });
        postcard::from_bytes(&self.run.calls.get(at?)?.answer).ok()
    }

    /// The differences so far, and those recorded calls that were not asked for.
    pub(in crate::scripts) fn finish(mut self) -> Vec<Difference> {
        let mut left: Vec<usize> = std::mem::take(&mut self.left).into_values().flatten().collect();
        left.sort_unstable();
        let run = Arc::clone(&self.run);
        for call in left.into_iter().filter_map(|at| run.calls.get(at)) {
            self.add(DifferenceKind::NotAsked, &call.name, &call.args);
        }
        self.differences
    }

    fn add(&mut self, kind: DifferenceKind, name: &str, args: &[u8]) {
        if self.differences.len() < MAX_DIFFERENCES {
            self.differences.push(Difference { kind, call: name.to_owned(), detail: shown(args) });
        }
    }
}

/// The readable parts of encoded arguments.
fn shown(args: &[u8]) -> String {
    let text = String::from_utf8_lossy(args);
    let readable = |c: char| if c.is_control() || c == char::REPLACEMENT_CHARACTER { ' ' } else { c };
    let text: String = text.chars().map(readable).take(MAX_SHOWN).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
