//! Counts a run's use of other servers against its limits, for `http.*`, `xrpc.*` and blobs together.

use std::time::{Duration, Instant};

use super::bindings::belvedere::script::types::{Fault, FaultCode};
use super::fault;
use super::state::RunState;
use crate::fair_share::Place;
use crate::net::NetError;
use crate::scripts::limits;
use crate::scripts::web::Web;

/// What a run has used so far.
#[derive(Debug)]
pub(super) struct Outbound {
    /// How many times the limits of an ordinary run this one has.
    factor: u32,
    requests: u32,
    bytes: usize,
    waited: Duration,
}

impl Outbound {
    pub(super) fn of(factor: u32) -> Self {
        Self { factor, requests: 0, bytes: 0, waited: Duration::ZERO }
    }

    /// Counts requests before they are sent.
    pub(super) fn count(&mut self, requests: usize) -> Result<(), Fault> {
        self.requests = self.requests.saturating_add(u32::try_from(requests).unwrap_or(u32::MAX));
        let max = limits::HTTP_REQUESTS * self.factor;
        if self.requests > max {
            return Err(fault::limit("too many requests to other servers", max));
        }
        Ok(())
    }

    /// How long the run may still wait for other servers.
    pub(super) fn time_left(&self) -> Result<Duration, Fault> {
        let max = limits::HTTP_RUN_TIME * self.factor;
        let left = max.saturating_sub(self.waited);
        if left.is_zero() {
            let max = format!("{} s of it", max.as_secs());
            return Err(fault::limit("too much time waiting for other servers", max));
        }
        Ok(left)
    }

    /// Bytes of answers that the run has received.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts the bytes of an answer, and the time waited for it.
    pub(super) fn charge(&mut self, bytes: usize, waited: Duration) {
        self.bytes += bytes;
        self.waited += waited;
    }
}

impl RunState {
    /// Waits for a place among the runs that wait for other servers. This time counts as waiting for them.
    pub(super) async fn outbound_place(&mut self, web: &Web) -> Result<Place, Fault> {
        let started = Instant::now();
        let place = web.turn(self.tenant()).await;
        self.outbound.charge(0, started.elapsed());
        place.map_err(|full| {
            let message = format!("too many scripts are waiting for other servers: {full}");
            fault::new(FaultCode::Unavailable, message)
        })
    }
}

/// The fault of a run whose answers exceed [`limits::HTTP_RUN_BYTES`].
pub(super) fn too_many_bytes() -> Fault {
    fault::limit("too many bytes of answers", limits::HTTP_RUN_BYTES)
}

/// Maps a request without an answer to a fault. It does not contain the addresses that names resolved to.
pub(super) fn fault_of(error: &NetError) -> Fault {
    let code = match error {
        NetError::Refused(_) => FaultCode::Forbidden,
        NetError::TooLarge(_) | NetError::Redirects(_) => FaultCode::Limit,
        NetError::Malformed(_) | NetError::Status(_) => FaultCode::Upstream,
        NetError::Dns(_) | NetError::Timeout | NetError::Transport(_) | NetError::Setup(_) => {
            FaultCode::Unavailable
        }
    };
    fault::new(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_bytes_and_waiting_are_bounded() {
        let mut used = Outbound::of(1);
        assert!(used.count(limits::HTTP_REQUESTS as usize).is_ok());
        assert_eq!(used.count(1).unwrap_err().code, FaultCode::Limit);
        used.charge(7, limits::HTTP_TIME);
        assert_eq!(
            (used.bytes(), used.time_left().unwrap()),
            (7, limits::HTTP_RUN_TIME.saturating_sub(limits::HTTP_TIME))
        );
        used.charge(100, limits::HTTP_RUN_TIME);
        assert_eq!(used.time_left().unwrap_err().code, FaultCode::Limit);
    }
}
