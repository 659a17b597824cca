//! A candidate for a script's body that some of its callers run.

use std::sync::{Arc, Mutex, PoisonError};

use super::{CompiledScript, TallySnapshot};
use belvedere_base::clock::Timestamp;
use belvedere_instance::xrpc::Caller;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::sha256;
use belvedere_storage::store::script_rollouts::{RolloutCounts, RolloutRow, RolloutVersion};

/// A rollout that goes on, on this host.
#[derive(Clone, Debug)]
pub struct Rollout {
    /// The trigger.
    pub script_id: Arc<str>,
    /// When it was started, which tells it from others of the script.
    pub started_at: Timestamp,
    percent: u64,
    candidate: Arc<CompiledScript>,
    counted: Arc<Mutex<Counted>>,
}

/// The runs of both versions that were taken to the store. Tallies count from when a script was loaded.
#[derive(Debug)]
struct Counted {
    current: TallySnapshot,
    candidate: TallySnapshot,
    /// Runs that could not be stored yet.
    left: [RolloutCounts; 2],
}

/// The two versions, in the order in which their runs are counted.
const VERSIONS: [RolloutVersion; 2] = [RolloutVersion::Current, RolloutVersion::Candidate];

impl Rollout {
    pub(super) fn new(row: &RolloutRow, current: &CompiledScript, candidate: Arc<CompiledScript>) -> Self {
        let counted = Counted {
            current: current.tally.read(),
            candidate: candidate.tally.read(),
            left: [RolloutCounts::default(); 2],
        };
        Self {
            script_id: Arc::clone(&candidate.name),
            started_at: row.started_at,
            percent: row.terms.percent.clamp(0, 100) as u64,
            candidate,
            counted: Arc::new(Mutex::new(counted)),
        }
    }

    /// The same rollout for another part of the callers.
    pub(super) fn with_percent(&self, row: &RolloutRow) -> Self {
        Self { percent: row.terms.percent.clamp(0, 100) as u64, ..self.clone() }
    }

    /// The candidate, if the caller is one of those that run it. A caller that runs it goes on running it when the percentage
    /// rises.
    pub(super) fn candidate_for(&self, caller: &str) -> Option<&Arc<CompiledScript>> {
        (place(&self.script_id, caller) < self.percent).then_some(&self.candidate)
    }

    pub(super) fn candidate(&self) -> &Arc<CompiledScript> {
        &self.candidate
    }

    /// The runs of both versions since they were taken last. [`Self::put_back`] keeps those that could not be stored.
    pub fn take(&self, current: &CompiledScript) -> [(RolloutVersion, RolloutCounts); 2] {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (current.tally.read(), self.candidate.tally.read());
        let added = [since(&counted.current, &now.0), since(&counted.candidate, &now.1)];
        (counted.current, counted.candidate) = now;
        let left = std::mem::take(&mut counted.left);
        [0, 1].map(|version| (VERSIONS[version], sum(left[version], added[version])))
    }

    /// Keeps runs that could not be stored, for the next time.
    pub fn put_back(&self, version: RolloutVersion, counts: RolloutCounts) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let left = &mut counted.left[usize::from(version == RolloutVersion::Candidate)];
        *left = sum(*left, counts);
    }
}

/// The place of a caller among those of a script, 0 to 99. Each script has another order of its callers, so that no caller runs
/// every candidate first.
fn place(script_id: &str, caller: &str) -> u64 {
    let [first, second, third, fourth, ..] = sha256(format!("{script_id}\n{caller}").as_bytes());
    u64::from(u32::from_be_bytes([first, second, third, fourth])) % 100
}

/// The text by which a caller is one of a rollout's part: their account, or else the API client, or else where the call is
/// from.
pub fn rollout_caller(caller: &Caller) -> String {
    match &caller.did {
        Some(did) => Did::as_str(did).to_owned(),
        None => format!("{:?}", caller.tenant),
    }
}

fn sum(a: RolloutCounts, b: RolloutCounts) -> RolloutCounts {
    RolloutCounts {
        runs: a.runs + b.runs,
        failures: a.failures + b.failures,
        instructions: a.instructions + b.instructions,
        guest_micros: a.guest_micros + b.guest_micros,
        took_micros: a.took_micros + b.took_micros,
    }
}

/// The runs between two snapshots of a tally. A script that was loaded again counts from zero.
fn since(before: &TallySnapshot, now: &TallySnapshot) -> RolloutCounts {
    let same = before.number == now.number;
    let more = |of: fn(&TallySnapshot) -> u64| {
        let before = if same { of(before) } else { 0 };
        i64::try_from(of(now).saturating_sub(before)).unwrap_or(i64::MAX)
    };
    RolloutCounts {
        runs: more(|tally| tally.runs),
        failures: more(|tally| tally.failures),
        instructions: more(|tally| tally.instructions),
        guest_micros: more(|tally| tally.guest_time.as_micros() as u64),
        took_micros: more(|tally| tally.took.as_micros() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_keep_their_place_and_are_spread_evenly() {
        let id = "xrpc.query:com.example.list";
        let dids: Vec<String> = (0..10_000).map(|n| format!("did:plc:{n}")).collect();
        for percent in [1_u64, 10, 50, 100] {
            let chosen = dids.iter().filter(|did| place(id, did) < percent).count() as u64;
            assert!(chosen.abs_diff(percent * 100) <= 200, "{percent}: {chosen}");
        }
        assert_eq!(place(id, &dids[7]), place(id, &dids[7]));
        let same =
            dids.iter().filter(|did| place(id, did) == place("record.index:com.example.note", did)).count();
        assert!(same < 300, "the order of another script is another: {same}");
    }
}
