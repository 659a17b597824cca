//! The sum of the profiles of a script's sampled runs.

use std::sync::{Mutex, PoisonError};

use belvedere_base::clock::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ProfileBuilder, RunProfile};

/// Places of a sum. A single profile has up to 8,192, but the sums of hundreds of scripts are kept: some 300 KiB each.
const MAX_PLACES: usize = 1_024;

/// The sum of the profiles since the script was loaded.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct SampledProfile {
    /// Runs that were profiled.
    pub runs: u64,
    /// The first of them.
    pub since: Timestamp,
    pub profile: RunProfile,
}

/// Takes the profiles of runs. Nothing is allocated before the first.
#[derive(Debug, Default)]
pub struct SampledProfiles(Mutex<Option<Box<Sum>>>);

#[derive(Debug)]
struct Sum {
    runs: u64,
    since: Timestamp,
    places: ProfileBuilder,
}

impl SampledProfiles {
    pub(in crate::scripts) fn add(&self, profile: &RunProfile, at: Timestamp) {
        let mut sum = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Box::new(Sum { runs: 0, since: at, places: ProfileBuilder::default() });
        let sum = sum.get_or_insert_with(new);
        sum.runs += 1;
        sum.places.add_profile(profile, MAX_PLACES);
    }

    /// `None` before the first run.
    pub fn read(&self) -> Option<SampledProfile> {
        let sum = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = sum.as_ref()?;
        let mut profile = sum.places.profile.clone();
        profile.count_lines();
        Some(SampledProfile { runs: sum.runs, since: sum.since, profile })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ProfileCost, ProfilePlace};
    use super::*;

    fn place(caller: Option<u32>, line: u32, instructions: u64) -> ProfilePlace {
        let cost = ProfileCost { instructions, ..ProfileCost::default() };
        ProfilePlace { caller, function: "f".to_owned(), file: "s".to_owned(), line, cost }
    }

    fn profile(places: Vec<ProfilePlace>) -> RunProfile {
        RunProfile { places, ..RunProfile::default() }
    }

    #[test]
    fn the_same_place_under_the_same_callers_is_summed() {
        let sums = SampledProfiles::default();
        assert!(sums.read().is_none());
        sums.add(&profile(vec![place(None, 1, 5), place(Some(0), 2, 7)]), Timestamp(10));
        // Another order of the same places, and one more.
        sums.add(
            &profile(vec![
                place(None, 3, 1),
                place(None, 1, 10),
                place(Some(1), 2, 20),
                place(Some(0), 2, 4),
            ]),
            Timestamp(20),
        );
        let sum = sums.read().unwrap();
        assert_eq!((sum.runs, sum.since), (2, Timestamp(10)));
        let found: Vec<_> =
            sum.profile.places.iter().map(|at| (at.caller, at.line, at.cost.instructions)).collect();
        assert_eq!(found, [(None, 1, 15), (Some(0), 2, 27), (None, 3, 1), (Some(2), 2, 4)]);
        let lines: Vec<_> =
            sum.profile.lines.iter().map(|line| (line.line, line.cost.instructions)).collect();
        assert_eq!(lines, [(1, 15), (2, 31), (3, 1)]);
    }

    #[test]
    fn places_without_room_are_counted_together() {
        let mut builder = ProfileBuilder::default();
        let run = profile((0..10).map(|line| place(None, line, 1)).collect());
        builder.add_profile(&run, 4);
        builder.add_profile(&run, 4);
        let built = builder.build();
        assert_eq!(built.places.len(), 5);
        assert_eq!((built.places[4].cost.instructions, built.total().instructions), (12, 20));
    }
}
