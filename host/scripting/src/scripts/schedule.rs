//! The times at which a script `schedule:NAME` runs: its source says them at the top level, as `cron = "0 3 * * *"` and, if not in
//! UTC, `timezone = "Europe/Berlin"`.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;

use super::mentions::{MentionKind, mentions};
use belvedere_base::clock::Timestamp;

/// The longest expression, in bytes.
const MAX_LENGTH: usize = 200;

/// The times of a script.
#[derive(Clone, Debug)]
pub struct Schedule {
    cron: Cron,
    zone: TimeZone,
    /// The expression: minute, hour, day of the month, month, day of the week.
    pub text: String,
    /// The name of the time zone in the database of IANA.
    pub timezone: String,
}

/// The reason why a source has no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSchedule {
    #[error("a schedule says when it runs at its top level, such as cron = \"0 3 * * *\"")]
    Missing,
    #[error("cron: {0:?} is not an expression of minute, hour, day, month and day of the week: {1}")]
    Cron(String, String),
    #[error("timezone: there is no time zone {0:?}; they are named as Europe/Berlin")]
    Timezone(String),
    #[error("cron: {0:?} is at no time of the next years")]
    Never(String),
}

impl Schedule {
    /// # Errors
    /// When the source has none that comes after `now`.
    pub fn of(source: &str, now: Timestamp) -> Result<Self, InvalidSchedule> {
        let mentions = mentions(source);
        let setting = |kind| mentions.iter().find(|mention| mention.kind == kind).map(|mention| mention.name);
        let text = setting(MentionKind::Cron).ok_or(InvalidSchedule::Missing)?.to_owned();
        let timezone = setting(MentionKind::Timezone).unwrap_or("UTC").to_owned();
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let refused = |reason: String| InvalidSchedule::Cron(text.chars().take(MAX_LENGTH).collect(), reason);
        if text.len() > MAX_LENGTH {
            return Err(refused(format!("it has more than {MAX_LENGTH} bytes")));
        }
        let cron = parser.parse(&text).map_err(|error| refused(error.to_string()))?;
        let zone = TimeZone::get(&timezone).map_err(|_| InvalidSchedule::Timezone(timezone.clone()))?;
        let schedule = Self { cron, zone, text, timezone };
        match schedule.next(now) {
            Some(_) => Ok(schedule),
            None => Err(InvalidSchedule::Never(schedule.text)),
        }
    }

    /// The first time after `after`, in the schedule's time zone.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = jiff::Timestamp::from_microsecond(after.0).ok()?.to_zoned(self.zone.clone());
        let next = self.cron.find_next_occurrence(&after, false).ok()?;
        Some(Timestamp(next.timestamp().as_microsecond()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-03-28T12:00:00Z, the day before the clocks of Berlin go forward.
    const NOW: Timestamp = Timestamp(1_774_699_200_000_000);

    fn times(source: &str) -> Vec<String> {
        let schedule = Schedule::of(source, NOW).unwrap_or_else(|error| panic!("{source}: {error}"));
        let mut at = NOW;
        let next = |_| {
            at = schedule.next(at)?;
            Some(at.to_string())
        };
        (0..2).filter_map(next).collect()
    }

    #[test]
    fn times_are_those_of_the_time_zone() {
        for (source, expected) in [
            ("cron = '0 3 * * *'", ["2026-03-29T03:00:00.000000Z", "2026-03-30T03:00:00.000000Z"]),
            ("cron = '*/5 * * * *'", ["2026-03-28T12:05:00.000000Z", "2026-03-28T12:10:00.000000Z"]),
            ("cron = '@hourly'", ["2026-03-28T13:00:00.000000Z", "2026-03-28T14:00:00.000000Z"]),
            (
                "cron = '0 9 * * MON-FRI' timezone = 'Europe/Berlin'",
                ["2026-03-30T07:00:00.000000Z", "2026-03-31T07:00:00.000000Z"],
            ),
            (
                "cron = \"30 12 L * *\"\ntimezone = \"America/New_York\"",
                ["2026-03-31T16:30:00.000000Z", "2026-04-30T16:30:00.000000Z"],
            ),
        ] {
            assert_eq!(times(source), expected, "{source}");
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let long = format!("cron = '{}'", "1,".repeat(200));
        for (source, message) in [
            ("function handle() cron = '0 3 * * *' end", "at its top level"),
            ("cron = expression", "at its top level"),
            ("cron = '0 3 * *'", "cron: \"0 3 * *\" is not an expression"),
            ("cron = '0 0 3 * * *'", "is not an expression"),
            ("cron = '61 3 * * *'", "is not an expression"),
            ("cron = '0 3 * * *' timezone = 'Mars/Base'", "no time zone \"Mars/Base\""),
            ("cron = '0 3 * * *' timezone = '../../etc/passwd'", "no time zone"),
            ("cron = '0 0 30 2 *'", "at no time"),
            (&*long, "more than 200 bytes"),
        ] {
            let error = Schedule::of(source, NOW).unwrap_err().to_string();
            assert!(error.contains(message), "{source}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-zA-Z*/,#@? L+-]{0,40}", zone in "[A-Za-z/_+0-9-]{0,20}") {
            if let Ok(schedule) = Schedule::of(&format!("cron = '{text}' timezone = '{zone}'"), NOW) {
                prop_assert!(schedule.next(NOW).is_some_and(|next| next > NOW));
            }
        }
    }
}
