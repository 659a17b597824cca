//! Settings of the limits of scripts and jobs.

use clap::Args;

use super::{Problems, parse};

/// The default for concurrent runs that no other script called. Scripts are CPU-bound; this is many times the number of
/// cores, to allow for runs that wait for the database. Runs called by scripts have about as many instances again. Their
/// memory has a bound of its own (`MEMORY_LIMIT_MIB`).
pub const POOL_SIZE: u32 = 64;

/// The default for runs that may wait for an instance: a tenth of a second's work at 10,000 runs a second.
pub const QUEUE: u32 = 1_024;

/// Each instance has 64 MiB of address space, and the system bounds how many mappings a process may have.
const MAX_POOL: u32 = 1024;
/// Each request that waits for an instance occupies a connection and a body.
const MAX_QUEUE: u32 = 100_000;
/// More than the largest machine can burn.
const MAX_CLIENT_FUEL: u64 = 10_000_000_000_000;

/// A job may wait for hours and occupies an instance all that time. A tenant may use half of the workers: two, so that
/// a short job can overtake a long one.
const DEFAULT_JOB_WORKERS: u32 = 4;
/// Half of the default number of instances.
const MAX_JOB_WORKERS: u32 = 32;

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Scripts")]
pub struct ScriptsArgs {
    /// Scripts that may run at the same time, up to 64 MiB of memory each [default: 64]
    #[arg(long = "script-pool-size", env = "SCRIPT_POOL_SIZE", global = true, value_name = "COUNT")]
    pub pool_size: Option<String>,
    /// Requests that may wait for a script to finish; more get 503 [default: 1024]
    #[arg(long = "script-queue", env = "SCRIPT_QUEUE", global = true, value_name = "COUNT")]
    pub queue: Option<String>,
    /// Average WebAssembly fuel per second that one API client's scripts may burn; a core burns about 10000000000; 0
    /// sets no limit [default: 0]
    #[arg(long = "script-client-fuel", env = "SCRIPT_CLIENT_FUEL", global = true, value_name = "FUEL")]
    pub client_fuel: Option<String>,
    /// Background jobs that this server runs at the same time; 0 leaves them to other servers [default: 4]
    #[arg(
        long = "job-worker-concurrency",
        env = "JOB_WORKER_CONCURRENCY",
        global = true,
        value_name = "COUNT"
    )]
    pub job_workers: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct Scripts {
    pub pool_size: u32,
    pub queue: u32,
    pub client_fuel: u64,
    pub job_workers: u32,
}

impl ScriptsArgs {
    pub(super) fn check(self, problems: &mut Problems) -> Scripts {
        Scripts {
            pool_size: parse::number("SCRIPT_POOL_SIZE", self.pool_size, POOL_SIZE, 1..=MAX_POOL, problems),
            queue: parse::number("SCRIPT_QUEUE", self.queue, QUEUE, 0..=MAX_QUEUE, problems),
            client_fuel: parse::number(
                "SCRIPT_CLIENT_FUEL",
                self.client_fuel,
                0,
                0..=MAX_CLIENT_FUEL,
                problems,
            ),
            job_workers: parse::number(
                "JOB_WORKER_CONCURRENCY",
                self.job_workers,
                DEFAULT_JOB_WORKERS,
                0..=MAX_JOB_WORKERS,
                problems,
            ),
        }
    }
}
