//! Chooses the steps in which a period is read.

use super::kept_seconds;
use belvedere_base::clock::Timestamp;
use belvedere_storage::store::metric_resolution::Resolution;

/// Steps of an answer by default, at most: about as many as a chart has places.
const DEFAULT_STEPS: i64 = 300;

/// The lengths among which the server chooses, in seconds.
const LENGTHS: [i64; 11] =
    [60, 120, 300, 600, 1_800, 3_600, 2 * 3_600, 3 * 3_600, 6 * 3_600, 12 * 3_600, 86_400];

/// The shortest period of a history that is younger than the requested one, in seconds: a chart needs a few steps.
const SHORTEST: i64 = 600;

/// A period as a client requests it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Period {
    /// A day before the end if absent.
    pub from: Option<Timestamp>,
    /// Now if absent.
    pub until: Option<Timestamp>,
    /// Seconds. The server chooses if absent.
    pub step: Option<i64>,
    /// The period before it is read too.
    pub is_compared: bool,
}

/// A period and its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    pub from: Timestamp,
    pub until: Timestamp,
    /// Seconds.
    pub step: i64,
    pub(super) resolution: Resolution,
}

/// The reason why a period is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSteps {
    #[error("from must be before until, and in the past")]
    Order,
    #[error("step must be a multiple of {0} seconds: shorter ones are not kept for the time of from")]
    Step(i64),
}

impl Steps {
    /// The steps of a period. It begins with the history (`begin`) if that is younger, unless it is compared with the period before.
    ///
    /// # Errors
    /// When they can't be read.
    pub fn new(period: Period, begin: Option<Timestamp>, now: Timestamp) -> Result<Self, InvalidSteps> {
        let until = period.until.unwrap_or(now).min(now);
        let mut from = period.from.unwrap_or(until.plus_seconds(-86_400));
        // Older steps are not kept, and an hour may have begun before.
        from = from.max(now.plus_seconds(-kept_seconds(Resolution::Hour) - 3_600));
        if from >= until {
            return Err(InvalidSteps::Order);
        }
        if !period.is_compared {
            from = from.max(begin.unwrap_or(now).min(until.plus_seconds(-SHORTEST)));
        }
        let seconds = until.as_seconds() - from.as_seconds();
        let oldest = if period.is_compared { from.plus_seconds(-seconds) } else { from };
        let of = |step| Some(Self { from, until, step, resolution: resolution(step, oldest, now)? });
        if let Some(step) = period.step {
            let finest = Resolution::ALL.into_iter().find(|one| is_kept(*one, oldest, now));
            let finest = finest.unwrap_or(Resolution::Hour).seconds();
            return of(step).ok_or(InvalidSteps::Step(finest));
        }
        let mut fitting = LENGTHS.into_iter().filter(|step| seconds / step <= DEFAULT_STEPS);
        fitting.find_map(of).ok_or(InvalidSteps::Order)
    }

    /// The time at which each step begins.
    pub(super) fn times(self) -> Vec<Timestamp> {
        let length = self.step * 1_000_000;
        let first = self.from.0.div_euclid(length) * length;
        (first..self.until.0).step_by(length as usize).map(Timestamp).collect()
    }

    /// The seconds between a step and the one of the period before with which it is compared.
    pub(super) fn length(self) -> i64 {
        let seconds = self.until.as_seconds() - self.from.as_seconds();
        (seconds / self.step).max(1) * self.step
    }
}

/// The coarsest stored steps of which a step can be made.
fn resolution(step: i64, oldest: Timestamp, now: Timestamp) -> Option<Resolution> {
    let can_be_made = |one: &Resolution| step > 0 && step % one.seconds() == 0 && is_kept(*one, oldest, now);
    Resolution::ALL.into_iter().rev().find(can_be_made)
}

/// Whether steps of this length are kept for such a time. Hours are the longest that there are.
fn is_kept(resolution: Resolution, oldest: Timestamp, now: Timestamp) -> bool {
    let slack = resolution.seconds();
    resolution == Resolution::Hour || oldest >= now.plus_seconds(-kept_seconds(resolution) - slack)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Resolution::{FiveMinutes, Hour, Minute};

    const NOW: Timestamp = Timestamp(1_800_000_007_000_000);
    const HOUR: i64 = 3_600;
    const DAY: i64 = 24 * HOUR;

    fn ago(seconds: i64) -> Timestamp {
        NOW.plus_seconds(-seconds)
    }

    fn new(period: Period) -> Result<Steps, InvalidSteps> {
        Steps::new(period, Some(ago(100 * DAY)), NOW)
    }

    fn span(seconds: i64, is_compared: bool) -> Steps {
        new(Period { from: Some(ago(seconds)), is_compared, ..Period::default() }).unwrap()
    }

    #[test]
    fn the_server_chooses_steps_that_are_kept() {
        for (seconds, step, resolution) in [
            (HOUR, 60, Minute),
            (6 * HOUR, 120, Minute),
            (7 * HOUR, 300, FiveMinutes),
            (DAY, 300, FiveMinutes),
            (2 * DAY, 600, FiveMinutes),
            (7 * DAY, HOUR, Hour),
            (30 * DAY, 3 * HOUR, Hour),
        ] {
            let found = span(seconds, false);
            assert_eq!((found.step, found.resolution), (step, resolution), "{seconds}");
            assert!(found.times().len() as i64 <= DEFAULT_STEPS + 2);
        }
        for (seconds, step) in
            [(HOUR, 60), (6 * HOUR, 300), (DAY, 300), (7 * DAY, HOUR), (30 * DAY, 3 * HOUR)]
        {
            assert_eq!(span(seconds, true).step, step, "with the period before, {seconds}");
        }
        // An hour of yesterday has no minutes.
        let old = Period { from: Some(ago(DAY)), until: Some(ago(23 * HOUR)), ..Period::default() };
        assert_eq!(new(old).unwrap().step, 300);
        let day = new(Period::default()).unwrap();
        assert_eq!((day.step, day.times().len()), (300, 289), "the last step has just begun");
    }

    #[test]
    fn a_period_begins_with_the_history() {
        let of = |begin, is_compared| {
            let found = Steps::new(Period { is_compared, ..Period::default() }, begin, NOW).unwrap();
            (Some(found.from), found.step)
        };
        assert_eq!(of(Some(ago(HOUR)), false), (Some(ago(HOUR)), 60));
        assert_eq!(of(Some(ago(3)), false), (Some(ago(SHORTEST)), 60));
        assert_eq!(of(None, false), (Some(ago(SHORTEST)), 60));
        assert_eq!(of(Some(ago(HOUR)), true), (Some(ago(DAY)), 300), "the period before has the same length");
    }

    #[test]
    fn invalid_periods_are_refused() {
        let order = |from, until| new(Period { from, until, ..Period::default() });
        assert_eq!(order(Some(ago(0)), Some(ago(0))), Err(InvalidSteps::Order));
        assert_eq!(order(Some(ago(-HOUR)), Some(ago(-DAY))), Err(InvalidSteps::Order), "in the future");
        assert_eq!(order(None, Some(Timestamp(i64::MIN))), Err(InvalidSteps::Order));
        let all = order(Some(Timestamp(i64::MIN)), Some(Timestamp(i64::MAX))).unwrap();
        assert_eq!((all.until, all.step), (NOW, 6 * HOUR));
        let step = |from, step| new(Period { from, step: Some(step), ..Period::default() });
        for bad in [0, -300, 301, i64::MIN, i64::MAX] {
            assert_eq!(step(None, bad), Err(InvalidSteps::Step(300)), "{bad}");
        }
        assert_eq!(step(Some(ago(HOUR)), 61), Err(InvalidSteps::Step(60)));
        assert_eq!(step(Some(ago(8 * DAY)), 300), Err(InvalidSteps::Step(HOUR)));
        assert_eq!(step(Some(ago(HOUR)), 600).unwrap().resolution, FiveMinutes);
    }
}
