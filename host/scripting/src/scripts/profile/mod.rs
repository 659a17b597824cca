//! The profile of a run: instructions, calls of the host, rows and waiting time of each line, under the calls that led to it.

mod sampled;

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use sampled::{SampledProfile, SampledProfiles};

/// The file of the prelude, as errors name it.
const PRELUDE: &str = "(belvedere)";

/// The lines that a run spent its instructions on, and those that called the host. At most some 8,000 places: deeper or further
/// ones are counted together, so that the sums are exact.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct RunProfile {
    /// The call tree: a place comes after its caller.
    pub places: Vec<ProfilePlace>,
    /// Each line of scripts and libraries that ran. It includes the functions of the server that it called, but not the lines of
    /// scripts that those called.
    pub lines: Vec<ProfileLine>,
    /// For each file the lines that hold code, in order.
    #[serde(skip)]
    pub code: BTreeMap<String, Vec<u32>>,
}

/// A line of a function, under the place that called the function.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ProfilePlace {
    /// The index of the place of the call.
    pub caller: Option<u32>,
    pub function: String,
    /// The trigger of the script or library; `(belvedere)` for functions of the server.
    pub file: String,
    /// 0 for functions of the server.
    pub line: u32,
    #[serde(flatten)]
    pub cost: ProfileCost,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ProfileLine {
    pub file: String,
    pub line: u32,
    #[serde(flatten)]
    pub cost: ProfileCost,
}

/// The cost of a line itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ProfileCost {
    pub instructions: u64,
    pub host_calls: u32,
    /// Rows that the calls of the host returned.
    pub rows: u64,
    /// Microseconds that the calls of the host took.
    pub host_us: u64,
}

impl ProfileCost {
    fn add(&mut self, other: &Self) {
        self.instructions += other.instructions;
        self.host_calls += other.host_calls;
        self.rows += other.rows;
        self.host_us += other.host_us;
    }
}

impl RunProfile {
    /// The sum of all places.
    pub fn total(&self) -> ProfileCost {
        let mut total = ProfileCost::default();
        self.places.iter().for_each(|place| total.add(&place.cost));
        total
    }

    /// The indices of a place and its callers, the outermost first.
    pub fn stack(&self, place: u32) -> Vec<u32> {
        let next = |at: &u32| self.places.get(*at as usize)?.caller;
        let mut stack: Vec<u32> = std::iter::successors(Some(place), next).collect();
        stack.reverse();
        stack
    }
}

/// A function, as the guest names it.
#[derive(Debug, Default)]
pub(in crate::scripts) struct FoundFunction {
    pub(in crate::scripts) file: String,
    /// The line on which it begins; 0 for a chunk.
    pub(in crate::scripts) line: u32,
    /// The name by which it was called first; may be empty.
    pub(in crate::scripts) name: String,
}

/// The places in which calls are left out, in the guest's table.
pub(in crate::scripts) enum FoundCaller {
    /// The run itself.
    Root,
    /// Calls that are left out.
    Cut,
    /// The place with this number in the guest's table.
    Place(u32),
}

/// Builds a profile from the guest's tables, whose places come in order, or from other profiles.
#[derive(Debug, Default)]
pub(in crate::scripts) struct ProfileBuilder {
    profile: RunProfile,
    known: HashMap<(Option<u32>, String, String, u32), u32>,
    /// The place of the profile for each number of the guest.
    numbers: HashMap<u32, u32>,
}

impl ProfileBuilder {
    /// Adds a place. Places of the prelude differ by function only.
    pub(in crate::scripts) fn add(
        &mut self,
        number: u32,
        caller: &FoundCaller,
        function: &FoundFunction,
        line: u32,
        cost: &ProfileCost,
    ) {
        let caller = match caller {
            FoundCaller::Root => None,
            FoundCaller::Cut => {
                Some(self.place(None, "(calls that are left out)".to_owned(), String::new(), 0))
            }
            FoundCaller::Place(number) => self.numbers.get(number).copied(),
        };
        let name = if !function.name.is_empty() {
            function.name.clone()
        } else if function.line == 0 {
            "(top level)".to_owned()
        } else if caller.is_none() && function.file != PRELUDE {
            // The host calls no other function.
            "handle".to_owned()
        } else {
            format!("function:{}", function.line)
        };
        let line = if function.file == PRELUDE { 0 } else { line };
        let place = self.place(caller, name, function.file.clone(), line);
        self.numbers.insert(number, place);
        self.profile.places[place as usize].cost.add(cost);
    }

    /// Adds the cost of lines for which there was no room.
    pub(in crate::scripts) fn add_other(&mut self, cost: &ProfileCost) {
        if *cost != ProfileCost::default() {
            let place = self.left_out();
            self.profile.places[place as usize].cost.add(cost);
        }
    }

    /// The place of all lines for which there is no room.
    fn left_out(&mut self) -> u32 {
        self.place(None, "(lines that are left out)".to_owned(), String::new(), 0)
    }

    /// Adds the costs of another profile. New places have room up to `max`.
    fn add_profile(&mut self, run: &RunProfile, max: usize) {
        let mut numbers: Vec<u32> = Vec::with_capacity(run.places.len());
        for ProfilePlace { caller, function, file, line, cost } in &run.places {
            let caller = caller.and_then(|caller| numbers.get(caller as usize).copied());
            let key = (caller, function.clone(), file.clone(), *line);
            let place = match self.known.get(&key) {
                Some(known) => *known,
                None if self.profile.places.len() < max => self.place(key.0, key.1, key.2, key.3),
                None => self.left_out(),
            };
            self.profile.places[place as usize].cost.add(cost);
            numbers.push(place);
        }
    }

    pub(in crate::scripts) fn add_code(&mut self, file: String, lines: Vec<u32>) {
        if file != PRELUDE && !lines.is_empty() {
            self.profile.code.insert(file, lines);
        }
    }

    fn place(&mut self, caller: Option<u32>, function: String, file: String, line: u32) -> u32 {
        let next = self.profile.places.len() as u32;
        let key = (caller, function.clone(), file.clone(), line);
        let found = *self.known.entry(key).or_insert(next);
        if found == next {
            let cost = ProfileCost::default();
            self.profile.places.push(ProfilePlace { caller, function, file, line, cost });
        }
        found
    }

    pub(in crate::scripts) fn build(mut self) -> RunProfile {
        self.profile.count_lines();
        self.profile
    }
}

impl RunProfile {
    /// Makes the sums of the lines from the places.
    fn count_lines(&mut self) {
        let mut lines: BTreeMap<(String, u32), ProfileCost> = BTreeMap::new();
        let places = &self.places;
        for place in places {
            let mut own = Some(place);
            while let Some(found) = own.filter(|found| found.line == 0) {
                own = found.caller.and_then(|caller| places.get(caller as usize));
            }
            if let Some(found) = own {
                lines.entry((found.file.clone(), found.line)).or_default().add(&place.cost);
            }
        }
        let line = |((file, line), cost)| ProfileLine { file, line, cost };
        self.lines = lines.into_iter().map(line).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_includes_the_functions_of_the_server_that_it_calls() {
        let function = |file: &str, line, name: &str| FoundFunction {
            file: file.to_owned(),
            line,
            name: name.to_owned(),
        };
        let (handle, query) = (function("s", 1, ""), function(PRELUDE, 7, "query"));
        let cost = |instructions| ProfileCost { instructions, ..ProfileCost::default() };
        let mut builder = ProfileBuilder::default();
        builder.add(3, &FoundCaller::Root, &handle, 2, &cost(5));
        builder.add(4, &FoundCaller::Place(3), &query, 8, &cost(7));
        builder.add(5, &FoundCaller::Place(3), &query, 9, &cost(11));
        builder.add(6, &FoundCaller::Place(4), &function("s", 4, ""), 4, &cost(13));
        let profile = builder.build();
        assert_eq!(profile.places.len(), 3, "the lines of the prelude are not told apart");
        assert_eq!(profile.places[0].function, "handle");
        let lines: Vec<_> = profile.lines.iter().map(|line| (line.line, line.cost.instructions)).collect();
        assert_eq!(lines, [(2, 23), (4, 13)]);
        assert_eq!((profile.total(), profile.stack(2)), (cost(36), vec![0, 1, 2]));
    }
}
