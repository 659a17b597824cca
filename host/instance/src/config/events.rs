//! Settings of the event log.

use clap::Args;

use super::{NumberSetting, Problems, Setting, parse};

/// The default is that of service.md, Limits. A century: a larger value is a mistake in the unit.
pub const RETENTION_DAYS: NumberSetting<u32> = NumberSetting {
    variable: "EVENT_LOG_RETENTION_DAYS",
    default: 30,
    range: 0..=36_500,
    about: "Days that events are kept; 0 keeps them forever",
};

pub const VERBOSE: Setting<bool> = Setting {
    variable: "VERBOSE_EVENT_LOGGING",
    default: false,
    about: "Log every record that is indexed and every script that runs",
};

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Event log")]
pub struct EventsArgs {
    #[arg(long = "event-log-retention-days", env = RETENTION_DAYS.variable, help = RETENTION_DAYS.help(), global = true,
        value_name = "DAYS")]
    pub retention_days: Option<String>,
    #[arg(long = "verbose-event-logging", env = VERBOSE.variable, help = VERBOSE.help(), global = true,
        value_name = "BOOL")]
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
        Events {
            retention_days: parse::text(self.retention_days)
                .map(|days| RETENTION_DAYS.read(Some(days), problems)),
            verbose: VERBOSE.read(self.verbose, problems),
        }
    }
}
