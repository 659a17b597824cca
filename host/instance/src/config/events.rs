//! Settings of the event log.

use clap::Args;

use super::{Problems, parse};

/// Days that events are kept if neither the environment nor an admin says otherwise (service.md, Limits).
pub const DEFAULT_RETENTION_DAYS: u32 = 30;
/// A century: a larger value is a mistake in the unit.
pub const MAX_RETENTION_DAYS: u32 = 36_500;

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Event log")]
pub struct EventsArgs {
    /// Days that events are kept; 0 keeps them forever [default: 30]
    #[arg(
        long = "event-log-retention-days",
        env = "EVENT_LOG_RETENTION_DAYS",
        global = true,
        value_name = "DAYS"
    )]
    pub retention_days: Option<String>,
    /// Log every record that is indexed and every script that runs [default: false]
    #[arg(long = "verbose-event-logging", env = "VERBOSE_EVENT_LOGGING", global = true, value_name = "BOOL")]
    pub verbose: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct Events {
    /// 0 means forever; `None` when the variable is not set.
    pub retention_days: Option<u32>,
    pub verbose: bool,
}

impl EventsArgs {
    pub(super) fn check(self, problems: &mut Problems) -> Events {
        let days = |text| {
            let range = 0..=MAX_RETENTION_DAYS;
            parse::number("EVENT_LOG_RETENTION_DAYS", Some(text), DEFAULT_RETENTION_DAYS, range, problems)
        };
        Events {
            retention_days: parse::text(self.retention_days).map(days),
            verbose: parse::flag("VERBOSE_EVENT_LOGGING", self.verbose, false, problems),
        }
    }
}
