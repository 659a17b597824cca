//! Settings of backfills. Admins may change them while the server runs (`/admin/settings`).

use std::collections::BTreeMap;

use clap::Args;

use super::{NumberSetting, Problems, Setting, parse};

/// The maximum is what one process can use.
pub const CONCURRENT_PDS: NumberSetting<u32> = NumberSetting {
    variable: "BACKFILL_CONCURRENT_PDS",
    default: 10,
    range: 1..=64,
    about: "PDSs from which a backfill reads at the same time",
};

/// More than 16 is what PDSs answer with 429.
pub const CONCURRENT_DIDS_PER_PDS: NumberSetting<u32> = NumberSetting {
    variable: "BACKFILL_CONCURRENT_DIDS_PER_PDS",
    default: 3,
    range: 1..=16,
    about: "Repos that a backfill reads from one PDS at the same time",
};

pub const CONCURRENT_RESOLUTION: NumberSetting<u32> = NumberSetting {
    variable: "BACKFILL_CONCURRENT_RESOLUTION",
    default: 100,
    range: 1..=500,
    about: "DID documents that a backfill looks up at the same time",
};

pub const MAX_ATTEMPTS: NumberSetting<u32> = NumberSetting {
    variable: "BACKFILL_MAX_ATTEMPTS",
    default: 3,
    range: 1..=10,
    about: "How often a backfill tries a repo whose PDS fails",
};

/// A century: more is a mistake in the unit.
pub const RETENTION_DAYS: NumberSetting<u32> = NumberSetting {
    variable: "BACKFILL_RETENTION_DAYS",
    default: 28,
    range: 0..=36_500,
    about: "Days that the repos of an ended backfill are kept; 0 keeps them forever",
};

/// More than the network has accounts, so that only a relay that invents some reaches it; a row of each is kept, of some
/// 200 bytes.
pub const MAX_REPOS: NumberSetting<u32> = NumberSetting {
    variable: "BACKFILL_MAX_REPOS",
    default: 100_000_000,
    range: 1..=u32::MAX,
    about: "Repos that a backfill may have: it lists no more of them",
};

pub const CATCH_UP: Setting<bool> = Setting {
    variable: "BACKFILL_CATCH_UP",
    default: true,
    about: "Catch up by itself after a gap of the stream: read the repos that have changed since",
};

/// All settings of backfills that are numbers.
pub const NUMBERS: [NumberSetting<u32>; 6] =
    [CONCURRENT_PDS, CONCURRENT_DIDS_PER_PDS, CONCURRENT_RESOLUTION, MAX_ATTEMPTS, RETENTION_DAYS, MAX_REPOS];

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Backfill")]
pub struct BackfillArgs {
    #[arg(long = "backfill-concurrent-pds", env = CONCURRENT_PDS.variable, help = CONCURRENT_PDS.help(),
        global = true, value_name = "N")]
    pub concurrent_pds: Option<String>,
    #[arg(long = "backfill-concurrent-dids-per-pds", env = CONCURRENT_DIDS_PER_PDS.variable,
        help = CONCURRENT_DIDS_PER_PDS.help(), global = true, value_name = "N")]
    pub concurrent_dids_per_pds: Option<String>,
    #[arg(long = "backfill-concurrent-resolution", env = CONCURRENT_RESOLUTION.variable,
        help = CONCURRENT_RESOLUTION.help(), global = true, value_name = "N")]
    pub concurrent_resolution: Option<String>,
    #[arg(long = "backfill-max-attempts", env = MAX_ATTEMPTS.variable, help = MAX_ATTEMPTS.help(), global = true,
        value_name = "N")]
    pub max_attempts: Option<String>,
    #[arg(id = "backfill_retention_days", long = "backfill-retention-days", env = RETENTION_DAYS.variable,
        help = RETENTION_DAYS.help(), global = true, value_name = "DAYS")]
    pub retention_days: Option<String>,
    #[arg(long = "backfill-max-repos", env = MAX_REPOS.variable, help = MAX_REPOS.help(), global = true,
        value_name = "N")]
    pub max_repos: Option<String>,
    #[arg(long = "backfill-catch-up", env = CATCH_UP.variable, help = CATCH_UP.help(), global = true,
        value_name = "BOOL")]
    pub catch_up: Option<String>,
}

/// The given values, by the key of their setting.
#[derive(Clone, Debug)]
pub struct Backfill(BTreeMap<String, String>);

impl Backfill {
    pub fn settings(&self) -> BTreeMap<String, String> {
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
            Some((setting.key(), setting.read(Some(value), problems).to_string()))
        });
        let mut given: BTreeMap<_, _> = given.collect();
        if let Some(text) = parse::text(self.catch_up) {
            given.insert(CATCH_UP.key(), CATCH_UP.read(Some(text), problems).to_string());
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
        assert_eq!(given, BTreeMap::from(expected.map(|(key, value)| (key.to_owned(), value.to_owned()))));

        let args = BackfillArgs {
            concurrent_dids_per_pds: Some("0".to_owned()),
            max_attempts: Some("eleven".to_owned()),
            ..BackfillArgs::default()
        };
        args.check(&mut problems);
        assert_eq!(problems.iter().count(), 2);
    }
}
