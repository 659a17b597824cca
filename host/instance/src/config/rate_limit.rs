//! Settings of the default rate limit, for API clients that have no limit of their own.

use clap::Args;

use super::{NumberSetting, Problems};

/// The maximum is enough to mean "no limit" without overflowing anything.
const CAPACITY: NumberSetting<u32> = NumberSetting {
    variable: "DEFAULT_RATE_LIMIT_CAPACITY",
    default: 100,
    range: 1..=1_000_000_000,
    about: "Tokens that a client's bucket holds",
};

/// Slower than one token in a day is a mistake.
const REFILL_RATE: NumberSetting<f64> = NumberSetting {
    variable: "DEFAULT_RATE_LIMIT_REFILL_RATE",
    default: 2.0,
    range: 0.00001..=1_000_000_000.0,
    about: "Tokens that are added to a client's bucket per second",
};

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Rate limits")]
pub struct RateLimitArgs {
    #[arg(long = "default-rate-limit-capacity", env = CAPACITY.variable, help = CAPACITY.help(), global = true,
        value_name = "TOKENS")]
    pub capacity: Option<String>,
    #[arg(long = "default-rate-limit-refill-rate", env = REFILL_RATE.variable, help = REFILL_RATE.help(), global = true,
        value_name = "TOKENS")]
    pub refill_rate: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct RateLimit {
    pub capacity: u32,
    /// Tokens per second; above 0.
    pub refill_rate: f64,
}

impl RateLimitArgs {
    pub(super) fn check(self, problems: &mut Problems) -> RateLimit {
        RateLimit {
            capacity: CAPACITY.read(self.capacity, problems),
            refill_rate: REFILL_RATE.read(self.refill_rate, problems),
        }
    }
}
