//! The settings of backfills, as numbers.

use super::Settings;
use crate::config::NumberSetting;
use crate::config::backfill::{
    CATCH_UP, CONCURRENT_DIDS_PER_PDS, CONCURRENT_PDS, CONCURRENT_RESOLUTION, MAX_ATTEMPTS, MAX_REPOS,
    RETENTION_DAYS,
};

/// The limits of a backfill, and the time for which its details are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackfillSettings {
    pub concurrent_pds: u32,
    pub concurrent_dids_per_pds: u32,
    pub concurrent_resolution: u32,
    pub max_attempts: u32,
    /// 0 means forever.
    pub retention_days: u32,
    /// Maximum number of repos of one job.
    pub max_repos: u32,
}

impl Settings {
    /// The effective settings of backfills.
    pub fn backfill(&self) -> BackfillSettings {
        BackfillSettings {
            concurrent_pds: self.clamped(&CONCURRENT_PDS),
            concurrent_dids_per_pds: self.clamped(&CONCURRENT_DIDS_PER_PDS),
            concurrent_resolution: self.clamped(&CONCURRENT_RESOLUTION),
            max_attempts: self.clamped(&MAX_ATTEMPTS),
            retention_days: self.clamped(&RETENTION_DAYS),
            max_repos: self.clamped(&MAX_REPOS),
        }
    }

    /// Whether the server catches up by itself after a gap of the stream.
    pub fn catches_up(&self) -> bool {
        self.get(&CATCH_UP.key()).is_none_or(|value| !value.trim().eq_ignore_ascii_case("false"))
    }

    /// The effective value. Other software may have stored one that the API refuses: a number out of range is clamped,
    /// and any other text is the default (admin-api.md §9).
    fn clamped(&self, setting: &NumberSetting<u32>) -> u32 {
        let stored = self.get(&setting.key()).and_then(|text| text.trim().parse::<i64>().ok());
        let (low, high) = (*setting.range.start(), *setting.range.end());
        let clamped = stored.map(|number| number.clamp(low.into(), high.into()));
        clamped.and_then(|number| u32::try_from(number).ok()).unwrap_or(setting.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Stored;
    use belvedere_base::reloadable::Reloadable;

    #[test]
    fn stored_values_are_clamped_and_nonsense_is_the_default() {
        let stored = [
            ("backfill_concurrent_pds", "9999"),
            ("backfill_concurrent_dids_per_pds", "-1"),
            ("backfill_concurrent_resolution", "many"),
            ("backfill_retention_days", "0"),
            ("backfill_max_repos", "0"),
        ];
        let values = stored.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let stored = Stored { values, ..Stored::default() };
        let settings = Settings { stored: Reloadable::new(stored), ..Settings::default() };
        let expected = BackfillSettings {
            concurrent_pds: 64,
            concurrent_dids_per_pds: 1,
            concurrent_resolution: 100,
            max_attempts: 3,
            retention_days: 0,
            max_repos: 1,
        };
        assert_eq!(settings.backfill(), expected);
    }
}
