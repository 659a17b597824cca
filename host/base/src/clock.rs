//! The only source of the current time, and the one timestamp type.

#[cfg(feature = "sql")]
mod sql;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Microseconds since the Unix epoch, UTC. Stored as BIGINT, shown as RFC 3339 with six digits and `Z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(inline, with = "String", description = "", extend("format" = "date-time"))]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The latest time that can be shown. It stands for all later ones.
    pub const LATEST: Self = Self(253_402_207_200_999_999);

    /// Reads RFC 3339 with any offset. A time after [`Self::LATEST`] becomes that one: 9999-12-31 is what others write
    /// for "never".
    ///
    /// # Errors
    /// When the text is not an RFC 3339 timestamp.
    pub fn parse(text: &str) -> Result<Self, jiff::Error> {
        match text.parse::<jiff::Timestamp>() {
            Ok(t) => Ok(Self(t.as_microsecond())),
            Err(_) if is_after_latest(text) => Ok(Self::LATEST),
            Err(error) => Err(error),
        }
    }

    /// Whole seconds since the epoch, rounded down.
    pub fn as_seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    #[must_use]
    pub fn plus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(1_000_000)))
    }
}

/// Whether a text is a time in the last day of the year 9999, which jiff leaves out so that every time has a date in
/// every time zone.
fn is_after_latest(text: &str) -> bool {
    let Ok(pieces) = jiff::fmt::temporal::Pieces::parse(text) else { return false };
    pieces.date() >= jiff::civil::date(9999, 12, 30) && pieces.time().is_some() && pieces.offset().is_some()
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only a corrupt row exceeds jiff's range (the year 9999): clamp it instead of panicking.
        let t = jiff::Timestamp::from_microsecond(self.0).unwrap_or(jiff::Timestamp::MAX);
        write!(f, "{t:.6}")
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(d)?).map_err(serde::de::Error::custom)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// Returns the current time: the system's, or one that a test sets.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    pub fn system() -> Self {
        Self(None)
    }

    /// A clock that stands still until [`Clock::set`] is called.
    pub fn fixed(at: Timestamp) -> Self {
        Self(Some(Arc::new(AtomicI64::new(at.0))))
    }

    /// Moves a fixed clock; a system clock stays as it is.
    pub fn set(&self, at: Timestamp) {
        if let Some(fixed) = &self.0 {
            fixed.store(at.0, Ordering::Relaxed);
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the only module that may read the system clock")]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Some(fixed) => Timestamp(fixed.load(Ordering::Relaxed)),
            None => Timestamp(jiff::Timestamp::now().as_microsecond()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_six_digits_and_z_and_reads_them_back() {
        let t = Timestamp(1_700_000_000_000_001);
        assert_eq!(t.to_string(), "2023-11-14T22:13:20.000001Z");
        assert_eq!(Timestamp::parse("2023-11-14T23:13:20.000001+01:00").unwrap(), t);
        assert!(Timestamp::parse("yesterday").is_err());
    }

    #[test]
    fn times_after_the_latest_are_the_latest() {
        assert_eq!(Timestamp::LATEST.0, jiff::Timestamp::MAX.as_microsecond());
        for never in [
            "9999-12-31T23:59:59.999Z",
            "9999-12-31T00:00:00Z",
            "9999-12-31T23:59:59-12:00",
            "9999-12-30T23:00:00+00:00",
        ] {
            assert_eq!(Timestamp::parse(never).unwrap(), Timestamp::LATEST, "{never}");
        }
        assert_eq!(Timestamp::parse(&Timestamp::LATEST.to_string()).unwrap(), Timestamp::LATEST);
        for bad in ["9999-12-31", "9999-12-31T23:59:59", "9999-12-32T00:00:00Z", "9999-12-31T25:00:00Z"] {
            assert!(Timestamp::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_fixed_clock_moves_only_when_set() {
        let clock = Clock::fixed(Timestamp(5));
        assert_eq!(clock.now(), Timestamp(5));
        clock.set(Timestamp(9));
        assert_eq!(clock.now(), Timestamp(9));
    }
}
