//! Settings of backfills. Admins may change them while the server runs (`/admin/settings`).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use clap::Args;

use super::{Problems, parse};

/// A whole number that an admin may set: the key of the setting, the variable, the default, and the range of values.
#[derive(Clone, Debug)]
pub struct NumberSetting {
    pub key: &'static str,
    variable: &'static str,
    pub default: u32,
    pub range: RangeInclusive<u32>,
}

/// PDSs that are read at the same time. The maximum is what one process can use.
pub const CONCURRENT_PDS: NumberSetting = NumberSetting {
    key: "backfill_concurrent_pds",
    variable: "BACKFILL_CONCURRENT_PDS",
    default: 10,
    range: 1..=64,
};

/// Repos that are read at the same time from one PDS. More than 16 is what PDSs answer with 429.
pub const CONCURRENT_DIDS_PER_PDS: NumberSetting = NumberSetting {
    key: "backfill_concurrent_dids_per_pds",
    variable: "BACKFILL_CONCURRENT_DIDS_PER_PDS",
    default: 3,
    range: 1..=16,
};

/// DID documents that are looked up at the same time.
pub const CONCURRENT_RESOLUTION: NumberSetting = NumberSetting {
    key: "backfill_concurrent_resolution",
    variable: "BACKFILL_CONCURRENT_RESOLUTION",
    default: 100,
    range: 1..=500,
};

/// How often a repo is tried before it counts as failed.
pub const MAX_ATTEMPTS: NumberSetting = NumberSetting {
    key: "backfill_max_attempts",
    variable: "BACKFILL_MAX_ATTEMPTS",
    default: 3,
    range: 1..=10,
};

/// Days that the repos of an ended job are kept; 0 keeps them forever. A century: more is a mistake in the unit.
pub const RETENTION_DAYS: NumberSetting = NumberSetting {
    key: "backfill_retention_days",
    variable: "BACKFILL_RETENTION_DAYS",
    default: 28,
    range: 0..=36_500,
};

/// Repos of one job. More than the network has accounts, so that only a relay that invents some reaches it; a row of each is
/// kept, of some 200 bytes.
pub const MAX_REPOS: NumberSetting = NumberSetting {
    key: "backfill_max_repos",
    variable: "BACKFILL_MAX_REPOS",
    default: 100_000_000,
    range: 1..=u32::MAX,
};

/// The key of the setting that lets the server catch up by itself after a gap of the stream.
pub const CATCH_UP: &str = "backfill_catch_up";

/// All settings of backfills that are numbers.
pub const SETTINGS: [NumberSetting; 6] =
    [CONCURRENT_PDS, CONCURRENT_DIDS_PER_PDS, CONCURRENT_RESOLUTION, MAX_ATTEMPTS, RETENTION_DAYS, MAX_REPOS];

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Backfill")]
pub struct BackfillArgs {
    /// PDSs from which a backfill reads at the same time, at most 64 [default: 10]
    #[arg(
        long = "backfill-concurrent-pds",
        env = "BACKFILL_CONCURRENT_PDS",
        global = true,
        value_name = "N"
    )]
    pub concurrent_pds: Option<String>,
    /// Repos that a backfill reads from one PDS at the same time, at most 16 [default: 3]
    #[arg(
        long = "backfill-concurrent-dids-per-pds",
        env = "BACKFILL_CONCURRENT_DIDS_PER_PDS",
        global = true,
        value_name = "N"
    )]
    pub concurrent_dids_per_pds: Option<String>,
    /// DID documents that a backfill looks up at the same time, at most 500 [default: 100]
    #[arg(
        long = "backfill-concurrent-resolution",
        env = "BACKFILL_CONCURRENT_RESOLUTION",
        global = true,
        value_name = "N"
    )]
    pub concurrent_resolution: Option<String>,
    /// How often a backfill tries a repo whose PDS fails, at most 10 [default: 3]
    #[arg(long = "backfill-max-attempts", env = "BACKFILL_MAX_ATTEMPTS", global = true, value_name = "N")]
    pub max_attempts: Option<String>,
    /// Days that the repos of an ended backfill are kept; 0 keeps them forever [default: 28]
    #[arg(
        id = "backfill_retention_days",
        long = "backfill-retention-days",
        env = "BACKFILL_RETENTION_DAYS",
        global = true,
        value_name = "DAYS"
    )]
    pub retention_days: Option<String>,
    /// Repos that a backfill may have: it lists no more of them [default: 100000000]
    #[arg(long = "backfill-max-repos", env = "BACKFILL_MAX_REPOS", global = true, value_name = "N")]
    pub max_repos: Option<String>,
    /// Catch up by itself after a gap of the stream: read the repos that have changed since [default: true]
    #[arg(long = "backfill-catch-up", env = "BACKFILL_CATCH_UP", global = true, value_name = "BOOL")]
    pub catch_up: Option<String>,
}

/// The given values, by the key of their setting.
#[derive(Clone, Debug)]
pub struct Backfill(BTreeMap<&'static str, String>);

impl Backfill {
    pub fn settings(&self) -> BTreeMap<&'static str, String> {
        self.0.clone()
    }
}

impl BackfillArgs {
    pub(super) fn check(self, problems: &mut Problems) -> Backfill {
        let values = [
            (CONCURRENT_PDS, self.concurrent_pds),
            (CONCURRENT_DIDS_PER_PDS, self.concurrent_dids_per_pds),
            (CONCURRENT_RESOLUTION, self.concurrent_resolution),
            (MAX_ATTEMPTS, self.max_attempts),
            (RETENTION_DAYS, self.retention_days),
            (MAX_REPOS, self.max_repos),
        ];
        let given = values.into_iter().filter_map(|(setting, value)| {
            let value = parse::text(value)?;
            let number =
                parse::number(setting.variable, Some(value), setting.default, setting.range, problems);
            Some((setting.key, number.to_string()))
        });
        let mut given: BTreeMap<_, _> = given.collect();
        if let Some(text) = parse::text(self.catch_up) {
            given.insert(CATCH_UP, parse::flag("BACKFILL_CATCH_UP", Some(text), true, problems).to_string());
        }
        Backfill(given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_given_values_are_settings_and_must_be_in_range() {
        let mut problems = Problems::default();
        let args = BackfillArgs {
            concurrent_pds: Some(" 64 ".to_owned()),
            retention_days: Some("0".to_owned()),
            catch_up: Some("false".to_owned()),
            concurrent_resolution: Some(String::new()),
            ..BackfillArgs::default()
        };
        let given = args.check(&mut problems).settings();
        assert_eq!(problems, Problems::default());
        let expected = [
            ("backfill_catch_up", "false"),
            ("backfill_concurrent_pds", "64"),
            ("backfill_retention_days", "0"),
        ];
        assert_eq!(given, BTreeMap::from(expected.map(|(key, value)| (key, value.to_owned()))));

        let args = BackfillArgs {
            concurrent_dids_per_pds: Some("0".to_owned()),
            max_attempts: Some("eleven".to_owned()),
            ..BackfillArgs::default()
        };
        args.check(&mut problems);
        assert_eq!(problems.iter().count(), 2);
    }
}
