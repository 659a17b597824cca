//! The lengths of the steps in which [`super::metric_history`] and [`super::request_latencies`] are stored.

use belvedere_base::clock::Timestamp;

/// The length of steps. Each has tables of its own, and hosts add every sample to those of all lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    Minute,
    FiveMinutes,
    Hour,
}

impl Resolution {
    /// The finest first.
    pub const ALL: [Self; 3] = [Self::Minute, Self::FiveMinutes, Self::Hour];

    /// The length of a step.
    pub const fn seconds(self) -> i64 {
        match self {
            Self::Minute => 60,
            Self::FiveMinutes => 300,
            Self::Hour => 3_600,
        }
    }

    /// The time at which the step of `at` begins.
    pub fn step_of(self, at: Timestamp) -> Timestamp {
        let length = self.seconds() * 1_000_000;
        Timestamp(at.0.div_euclid(length) * length)
    }

    pub(super) fn history(self) -> &'static str {
        match self {
            Self::Minute => "metric_history_minutes",
            Self::FiveMinutes => "metric_history",
            Self::Hour => "metric_history_hours",
        }
    }

    pub(super) fn latencies(self) -> &'static str {
        match self {
            Self::Minute => "request_latencies_minutes",
            Self::FiveMinutes => "request_latencies",
            Self::Hour => "request_latencies_hours",
        }
    }
}
