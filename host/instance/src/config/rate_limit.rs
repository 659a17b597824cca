//! Settings of the default rate limit, for API clients that have no limit of their own.

use clap::Args;

use super::{Problems, parse};

const DEFAULT_CAPACITY: u32 = 100;
const DEFAULT_REFILL_RATE: f64 = 2.0;
/// Enough to mean "no limit" without overflowing anything.
const MAX_CAPACITY: u32 = 1_000_000_000;
/// Slower than one token in a day is a mistake.
const REFILL_RATES: std::ops::RangeInclusive<f64> = 0.00001..=1_000_000_000.0;

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Rate limits")]
pub struct RateLimitArgs {
    /// Tokens that a client's bucket holds [default: 100]
    #[arg(
        long = "default-rate-limit-capacity",
        env = "DEFAULT_RATE_LIMIT_CAPACITY",
        global = true,
        value_name = "TOKENS"
    )]
    pub capacity: Option<String>,
    /// Tokens that are added to a client's bucket per second [default: 2.0]
    #[arg(
        long = "default-rate-limit-refill-rate",
        env = "DEFAULT_RATE_LIMIT_REFILL_RATE",
        global = true,
        value_name = "TOKENS"
    )]
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
            capacity: parse::number(
                "DEFAULT_RATE_LIMIT_CAPACITY",
                self.capacity,
                DEFAULT_CAPACITY,
                1..=MAX_CAPACITY,
                problems,
            ),
            refill_rate: parse::number(
                "DEFAULT_RATE_LIMIT_REFILL_RATE",
                self.refill_rate,
                DEFAULT_REFILL_RATE,
                REFILL_RATES,
                problems,
            ),
        }
    }
}
