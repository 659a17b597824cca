//! Watches a replica: looks at it every second and decides whether it is used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::Replica;
use super::link::Link;
use super::probe::{ReplicaProbe, Seen};
use crate::store::read_pool::position::{Lag, Position};
use crate::store::read_pool::{Progress, Unused, Watched, watch};

/// Time that the first look waits for the primary.
const START_MAX_WAIT: Duration = Duration::from_secs(3);

/// The answer of a replica before the present one.
#[derive(Clone, Copy, Debug)]
struct Before {
    at: Instant,
    replayed: Position,
}

pub(super) struct Watch {
    replica: Arc<Replica>,
    link: Arc<Link>,
    max_lag: Duration,
    probe: ReplicaProbe,
    before: Option<Before>,
}

impl Watch {
    pub(super) fn new(replica: Arc<Replica>, link: Arc<Link>, max_lag: Duration) -> Self {
        let probe = ReplicaProbe::new(replica.options.clone());
        Self { replica, link, max_lag, probe, before: None }
    }

    /// Watches until `stop` is cancelled.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        // Without the primary's position nothing can be decided.
        let connected = tokio::time::timeout(START_MAX_WAIT, self.link.connected());
        if stop.run_until_cancelled(connected).await.is_none() {
            return;
        }
        watch(&stop, &mut self).await;
        self.replica.service.set(Err(Unused::Ending), Progress::default());
    }

    fn judge(&mut self, seen: &Seen) {
        let now = Instant::now();
        let lag = self.link.lag(seen.replayed, now);
        let before = self.before.replace(Before { at: seen.at, replayed: seen.replayed });
        let shown = match lag {
            Some(Lag::AtMost(lag) | Lag::MoreThan(lag)) if seen.in_recovery => Some(lag),
            _ => None,
        };
        let progress = Progress { lag: shown, replayed_at: seen.replayed_at };
        let verdict = match self.link.identity() {
            None => Err(Unused::LagUnknown),
            Some(identity) if !identity.is_same_cluster(seen.identity) => Err(Unused::OtherServer),
            Some(identity) if identity != seen.identity => Err(Unused::OtherDatabase),
            Some(_) if !seen.in_recovery => Err(Unused::NotInRecovery),
            Some(_) if seen.missing_migrations > 0 => Err(Unused::NotMigrated(seen.missing_migrations)),
            Some(_) if before.is_some_and(|before| self.link.was_behind(before.replayed, before.at)) => {
                Err(Unused::Ahead)
            }
            Some(_) => close_enough(lag, self.max_lag, self.replica.service.is_in_use()),
        };
        self.replica.service.set(verdict.map(|()| seen.replayed), progress);
    }
}

impl Watched for Watch {
    async fn look(&mut self) {
        match self.probe.look().await {
            Ok(seen) => self.judge(&seen),
            Err(reason) => {
                self.before = None;
                self.replica.service.set(Err(reason), Progress::default());
            }
        }
    }
}

/// Whether a lag is small enough. A replica that is not used returns at three quarters of the bound, so that one at the
/// bound does not leave and return all the time.
fn close_enough(lag: Option<Lag>, max_lag: Duration, is_in_use: bool) -> Result<(), Unused> {
    let bound = if is_in_use { max_lag } else { max_lag * 3 / 4 };
    match lag {
        Some(Lag::AtMost(lag)) if lag <= bound => Ok(()),
        Some(Lag::AtMost(lag)) => Err(Unused::Lagging(lag)),
        Some(Lag::MoreThan(lag)) if lag > max_lag => Err(Unused::Lagging(lag)),
        // It is behind all that is known since the primary was connected.
        Some(Lag::MoreThan(_)) => Err(Unused::Measuring),
        None => Err(Unused::LagUnknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_at_the_bound_does_not_come_and_go() {
        let (bound, lag) =
            (Duration::from_secs(8), |seconds| Some(Lag::AtMost(Duration::from_secs(seconds))));
        assert_eq!(close_enough(lag(8), bound, true), Ok(()));
        assert!(close_enough(lag(9), bound, true).is_err());
        assert!(close_enough(lag(8), bound, false).is_err());
        assert_eq!(close_enough(lag(6), bound, false), Ok(()));
        assert_eq!(close_enough(Some(Lag::MoreThan(bound)), bound, true), Err(Unused::Measuring));
        let more = bound + Duration::from_secs(1);
        assert_eq!(close_enough(Some(Lag::MoreThan(more)), bound, true), Err(Unused::Lagging(more)));
        assert_eq!(close_enough(None, bound, true), Err(Unused::LagUnknown));
    }
}
