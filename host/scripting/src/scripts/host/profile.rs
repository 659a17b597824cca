//! `profile`: assigns the calls of the host, their rows and their time to the places of the profiled guest that made them,
//! and reads the guest's tables when the run has ended.

use std::sync::atomic::Ordering;

use super::host_costs::MAX_PLACES;
use super::state::RunState;
use crate::scripts::bindings::belvedere::script::profile::Host;
use crate::scripts::profile::{FoundCaller, FoundFunction, ProfileBuilder, ProfileCost, RunProfile};

/// Functions and sources of the guest (`guest-lua/c/profile.c`).
const MAX_FUNCTIONS: u32 = 2048;
const MAX_SOURCES: u32 = 64;

/// Places of the guest that are no line.
const CUT: u32 = 1;
const OTHER: u32 = 2;
const FIRST_PLACE: u32 = 3;

/// Bytes of the guest's structures, and of the texts in them.
const PLACE: u32 = 24;
const FUNCTION: u32 = 60;
const FUNCTION_NAME: u32 = 48;
const SOURCE: u32 = 2408;
const SOURCE_NAME: u32 = 360;

impl Host for RunState {
    fn calling(&mut self, place: u32) -> wasmtime::Result<()> {
        let (calls, rows) = self.host_counters();
        if let Some(costs) = &mut self.profile {
            costs.begin(place, calls, rows);
        }
        Ok(())
    }

    fn called(&mut self) -> wasmtime::Result<()> {
        let (calls, rows) = self.host_counters();
        if let Some(costs) = &mut self.profile {
            costs.end(calls, rows);
        }
        Ok(())
    }
}

impl RunState {
    /// The counted calls of the host and the rows so far.
    fn host_counters(&self) -> (u32, u64) {
        (self.host_calls().load(Ordering::Relaxed), self.rows)
    }

    /// Whether an observer receives how the run ends.
    pub(in crate::scripts) fn is_observed(&self) -> bool {
        self.services.as_ref().is_some_and(|services| services.observer.is_some())
    }

    /// Whether the instructions of the run are wanted: by its observer, or to compare it with another version.
    pub(in crate::scripts) fn is_counted(&self) -> bool {
        self.is_observed()
            || self.tape.is_some()
            || (self.services.is_some() && self.scripts.has_rollout(&self.info.trigger))
    }

    /// Whether a profile of the run is wanted.
    pub(in crate::scripts) fn is_profiled(&self) -> bool {
        self.profile.is_some()
    }

    /// Builds the profile of the run from the guest's memory and the address of its tables. `None` when they are not valid.
    pub(in crate::scripts) fn take_profile(&mut self, memory: &[u8], tables: u32) -> Option<RunProfile> {
        let (calls, rows) = self.host_counters();
        let mut costs = self.profile.take()?;
        // The call in which the run ended.
        costs.end(calls, rows);
        let memory = Memory(memory);
        let [places, place_count, functions, function_count, sources, source_count] =
            memory.words(tables.checked_add(4)?)?;
        let file = |number: u32| -> Option<(String, u32)> {
            let at = sources.checked_add(number.min(MAX_SOURCES) * SOURCE)?;
            let name = memory.text(at, SOURCE_NAME)?;
            Some((name.strip_prefix('=').unwrap_or(&name).to_owned(), at.checked_add(SOURCE_NAME)?))
        };
        let function = |number: u32| -> Option<FoundFunction> {
            let at = functions.checked_add(number * FUNCTION)?;
            let [_, source, line] = memory.words(at)?;
            let name = memory.text(at.checked_add(FUNCTION - FUNCTION_NAME)?, FUNCTION_NAME)?;
            Some(FoundFunction { file: file(source)?.0, line, name })
        };
        let functions = (0..function_count.min(MAX_FUNCTIONS)).map(function).collect::<Option<Vec<_>>>()?;
        let mut builder = ProfileBuilder::default();
        for number in 0..place_count.min(MAX_PLACES) {
            let [caller, function, line, _, low, high] = memory.words(places.checked_add(number * PLACE)?)?;
            let host = costs.at(number);
            let cost = ProfileCost {
                instructions: u64::from(low) | u64::from(high) << 32,
                host_calls: host.calls,
                rows: host.rows,
                host_us: u64::try_from(host.time.as_micros()).unwrap_or(u64::MAX),
            };
            let caller = match caller {
                CUT | OTHER => FoundCaller::Cut,
                FIRST_PLACE.. => FoundCaller::Place(caller),
                _ => FoundCaller::Root,
            };
            if number < FIRST_PLACE {
                builder.add_other(&cost);
            } else {
                builder.add(number, &caller, functions.get(function as usize)?, line, &cost);
            }
        }
        for number in 1..source_count.min(MAX_SOURCES) {
            let (name, lines) = file(number)?;
            let bits = memory.bytes(lines, SOURCE - SOURCE_NAME)?;
            let has_code = |line: &u32| bits[(line / 8) as usize] & (1 << (line % 8)) != 0;
            builder.add_code(name, (1..(SOURCE - SOURCE_NAME) * 8).filter(has_code).collect());
        }
        Some(builder.build())
    }
}

/// The memory of a guest.
struct Memory<'a>(&'a [u8]);

impl Memory<'_> {
    fn bytes(&self, at: u32, length: u32) -> Option<&[u8]> {
        let at = at as usize;
        self.0.get(at..at.checked_add(length as usize)?)
    }

    fn words<const N: usize>(&self, at: u32) -> Option<[u32; N]> {
        let bytes = self.bytes(at, N as u32 * 4)?;
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes(bytes.try_into().ok()?);
        }
        Some(words)
    }

    /// A text that ends with a NUL, in a field of that size.
    fn text(&self, at: u32, size: u32) -> Option<String> {
        let bytes = self.bytes(at, size)?;
        let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }
}
