//! Setting of the memory that the server stays within, and what of it scripts and responses may use.

mod machine;

use clap::Args;

use super::{Database, Problems, parse};

const MIB: u64 = 1 << 20;

const VARIABLE: &str = "MEMORY_LIMIT_MIB";

/// 16 TiB: more than a machine has.
const LARGEST_MIB: u64 = 1 << 24;

/// The default where the operating system does not tell what there is.
const UNKNOWN: u64 = 1 << 30;

/// A machine with less than twice this is taken to be there for this server alone. On a larger one other programs, such as
/// PostgreSQL, and the system's cache of files need memory too.
const OWN_MACHINE: u64 = 1 << 30;

/// The memory of the process besides scripts, responses and the caches that have a setting: 50 MiB idle, 30 MiB of DID
/// documents and other caches, 50 MiB of instances that stay mapped between runs, a batch of events, and the
/// allocator's waste.
const PROCESS: u64 = 144 * MIB;

/// Bytes of an account in the cache.
const ACCOUNT: u64 = 200;

/// The least for scripts and responses, however small the limit is: with less, ordinary runs would wait for each other.
const SMALLEST_SHARED: u64 = 160 * MIB;

/// The most for responses: 32 of the largest.
const MAX_RESPONSES: u64 = 256 * MIB;

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Memory")]
pub struct MemoryArgs {
    /// MiB of memory that the server stays within [default: the container's limit, or the machine's memory up to 1 GiB, or half
    /// of it]
    #[arg(long = "memory-limit-mib", env = "MEMORY_LIMIT_MIB", global = true, value_name = "MIB")]
    pub limit: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Bytes that the process stays within.
    pub limit: u64,
    /// Bytes of the process, its caches and the least for scripts and responses. They exceed the limit only if that is the
    /// machine's: a server that may be short of memory is better than none.
    needed: u64,
}

/// Bytes that scripts and responses may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryShares {
    /// Memory of all runs of scripts.
    pub runs: usize,
    /// Responses that clients have not read yet. Half as much again may wait for a reservation.
    pub responses: usize,
}

impl MemoryArgs {
    pub(super) fn check(self, database: &Database, problems: &mut Problems) -> Memory {
        let default = default_limit(machine::limit_of_container(), machine::total()) / MIB;
        let is_given = parse::text(self.limit.clone()).is_some();
        let default = default.clamp(1, LARGEST_MIB);
        let limit = parse::number(VARIABLE, self.limit, default, 1..=LARGEST_MIB, problems);
        let memory = Memory { limit: limit * MIB, needed: fixed(database) + SMALLEST_SHARED };
        if let Some(shortage) = memory.shortage().filter(|_| is_given) {
            problems.add(VARIABLE, shortage);
        }
        memory
    }
}

/// Bytes of the process and its caches.
fn fixed(database: &Database) -> u64 {
    let pages = if database.is_postgres() { 0 } else { u64::from(database.page_cache_mib) * MIB };
    PROCESS + pages + database.cached_accounts as u64 * ACCOUNT
}

fn default_limit(container: Option<u64>, machine: Option<u64>) -> u64 {
    let machine = machine.unwrap_or(UNKNOWN);
    // Without a limit, cgroups v1 name a number beyond any machine.
    match container.filter(|limit| *limit < machine) {
        Some(limit) => limit,
        None => machine.min(OWN_MACHINE).max(machine / 2),
    }
}

impl Memory {
    /// The remedy when the parts exceed the limit.
    pub fn shortage(self) -> Option<String> {
        let mib = |bytes: u64| bytes.div_ceil(MIB);
        (self.needed > self.limit).then(|| {
            format!(
                "{} MiB are too little: the process, its caches, scripts and responses need {}; give it as much, or lower \
                 DATABASE_CACHE_MIB (SQLite) or ACCOUNT_CACHE",
                mib(self.limit),
                mib(self.needed)
            )
        })
    }

    /// Divides what the process and its caches leave.
    pub fn shares(self, database: &Database) -> MemoryShares {
        let shared = self.limit.saturating_sub(fixed(database)).max(SMALLEST_SHARED);
        let responses = (shared / 4).min(MAX_RESPONSES);
        // Responses that wait for a reservation are in memory too.
        let runs = shared - responses - responses / 4;
        let bytes = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        MemoryShares { runs: bytes(runs), responses: bytes(responses) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Args;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_default_is_the_container_or_a_part_of_the_machine() {
        let machine = |bytes| default_limit(None, Some(bytes));
        assert_eq!([GIB / 2, GIB, 2 * GIB, 8 * GIB].map(machine), [GIB / 2, GIB, GIB, 4 * GIB]);
        assert_eq!(default_limit(Some(GIB / 2), Some(8 * GIB)), GIB / 2);
        assert_eq!(default_limit(Some(u64::MAX / 2), Some(8 * GIB)), 4 * GIB, "no limit");
        assert_eq!(default_limit(None, None), UNKNOWN);
    }

    fn checked(limit: &str, cache: &str, url: &str) -> Result<Memory, String> {
        let mut args = Args::default();
        args.memory.limit = Some(limit.to_owned());
        args.database.page_cache = Some(cache.to_owned());
        args.database.url = Some(url.to_owned());
        args.check().map(|config| config.memory).map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_limit_that_its_parts_exceed_is_a_problem() {
        const SQLITE: &str = "sqlite://x.db";
        for (limit, cache, least) in [("256", "96", 413), ("300", "96", 413), ("512", "400", 717)] {
            let text = checked(limit, cache, SQLITE).unwrap_err();
            assert!(
                text.contains(&format!("need {least};")) && text.contains("DATABASE_CACHE_MIB"),
                "{text}"
            );
            assert!(checked(&least.to_string(), cache, SQLITE).is_ok());
            assert!(checked(&(least - 1).to_string(), cache, SQLITE).is_err());
        }
        assert!(checked("512", "96", SQLITE).is_ok());
        assert!(checked("350", "16", SQLITE).is_ok(), "with a smaller cache");
        assert!(checked("317", "400", "postgres://x@x/x").is_ok(), "it has no cache of pages");
        for bad in ["0", "-1", "much", "16777217"] {
            assert!(checked(bad, "96", SQLITE).unwrap_err().contains("is not a number from 1"), "{bad}");
        }
    }

    #[test]
    fn a_machine_that_is_too_small_is_no_problem_but_a_shortage() {
        let of = |limit: u64| Memory { limit: limit * MIB, needed: 413 * MIB };
        assert!(of(128).shortage().unwrap().starts_with("128 MiB are too little"));
        assert_eq!(of(413).shortage(), None);
        assert!(Args::default().check().is_ok());
    }

    #[test]
    fn the_parts_fit_the_limit() {
        let database = Args::default().check().unwrap().database;
        let shares = |mib: u64| Memory { limit: mib * MIB, needed: 0 }.shares(&database);
        let fixed = PROCESS + 96 * MIB + 65_536 * ACCOUNT;
        for mib in [413, 512, 1024, 4096, 65_536] {
            let MemoryShares { runs, responses } = shares(mib);
            assert!(fixed + (runs + responses + responses / 4) as u64 <= mib * MIB, "{mib}");
            assert!(runs > 2 * responses, "{mib}");
        }
    }
}
