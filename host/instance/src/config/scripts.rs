//! Settings of the limits of scripts and jobs.

use clap::Args;

use super::{NumberSetting, Problems};

/// Concurrent runs that no other script called. Scripts are CPU-bound; the default is many times the number of cores, to
/// allow for runs that wait for the database. Runs called by scripts have about as many instances again. Their memory
/// has a bound of its own (`MEMORY_LIMIT_MIB`). Each instance has 64 MiB of address space, and the system bounds how many
/// mappings a process may have.
pub const POOL_SIZE: NumberSetting<u32> = NumberSetting {
    variable: "SCRIPT_POOL_SIZE",
    default: 64,
    range: 1..=1024,
    about: "Scripts that may run at the same time, up to 64 MiB of memory each",
};

/// The default is a tenth of a second's work at 10,000 runs a second. Each request that waits for an instance occupies a
/// connection and a body.
pub const QUEUE: NumberSetting<u32> = NumberSetting {
    variable: "SCRIPT_QUEUE",
    default: 1_024,
    range: 0..=100_000,
    about: "Requests that may wait for a script to finish; more get 503",
};

/// The maximum is more than the largest machine can burn.
const CLIENT_FUEL: NumberSetting<u64> = NumberSetting {
    variable: "SCRIPT_CLIENT_FUEL",
    default: 0,
    range: 0..=10_000_000_000_000,
    about: "Average WebAssembly fuel per second that one API client's scripts may burn; a core burns about 10000000000; \
            0 sets no limit",
};

/// A job may wait for hours and occupies an instance all that time. A tenant may use half of the workers: two, so that
/// a short job can overtake a long one. The maximum is half of the default number of instances.
const JOB_WORKERS: NumberSetting<u32> = NumberSetting {
    variable: "JOB_WORKER_CONCURRENCY",
    default: 4,
    range: 0..=32,
    about: "Background jobs that this server runs at the same time; 0 leaves them to other servers",
};

/// A profiled run takes several times as long. With 500 the runs together take less than a hundredth longer.
const PROFILE_SAMPLE: NumberSetting<u32> = NumberSetting {
    variable: "SCRIPT_PROFILE_SAMPLE",
    default: 0,
    range: 0..=1_000_000,
    about: "One of so many runs of scripts is profiled by line; 0 profiles none",
};

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Scripts")]
pub struct ScriptsArgs {
    #[arg(long = "script-pool-size", env = POOL_SIZE.variable, help = POOL_SIZE.help(), global = true,
        value_name = "COUNT")]
    pub pool_size: Option<String>,
    #[arg(long = "script-queue", env = QUEUE.variable, help = QUEUE.help(), global = true, value_name = "COUNT")]
    pub queue: Option<String>,
    #[arg(long = "script-client-fuel", env = CLIENT_FUEL.variable, help = CLIENT_FUEL.help(), global = true,
        value_name = "FUEL")]
    pub client_fuel: Option<String>,
    #[arg(long = "job-worker-concurrency", env = JOB_WORKERS.variable, help = JOB_WORKERS.help(), global = true,
        value_name = "COUNT")]
    pub job_workers: Option<String>,
    #[arg(long = "script-profile-sample", env = PROFILE_SAMPLE.variable, help = PROFILE_SAMPLE.help(), global = true,
        value_name = "RUNS")]
    pub profile_sample: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct Scripts {
    pub pool_size: u32,
    pub queue: u32,
    pub client_fuel: u64,
    pub job_workers: u32,
    /// One of so many runs is profiled; 0: none.
    pub profile_sample: u32,
}

impl ScriptsArgs {
    pub(super) fn check(self, problems: &mut Problems) -> Scripts {
        Scripts {
            pool_size: POOL_SIZE.read(self.pool_size, problems),
            queue: QUEUE.read(self.queue, problems),
            client_fuel: CLIENT_FUEL.read(self.client_fuel, problems),
            job_workers: JOB_WORKERS.read(self.job_workers, problems),
            profile_sample: PROFILE_SAMPLE.read(self.profile_sample, problems),
        }
    }
}
