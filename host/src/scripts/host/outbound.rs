//! What a run may use of other servers: counted here, for `http.*`, `xrpc.*` and blobs alike.

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
    /// So many times the allowances of an ordinary run.
    times: u32,
    requests: u32,
    bytes: usize,
    waited: Duration,
}

impl Outbound {
    pub(super) fn of(times: u32) -> Self {
        Self { times, requests: 0, bytes: 0, waited: Duration::ZERO }
    }

    /// Counts requests before they are sent.
    pub(super) fn count(&mut self, requests: usize) -> Result<(), Fault> {
        self.requests = self.requests.saturating_add(u32::try_from(requests).unwrap_or(u32::MAX));
        let most = limits::HTTP_REQUESTS * self.times;
        if self.requests > most {
            return Err(fault::limit("too many requests to other servers", most));
        }
        Ok(())
    }

    /// How long the run may still wait for others.
    pub(super) fn time_left(&self) -> Result<Duration, Fault> {
        let most = limits::HTTP_RUN_TIME * self.times;
        let left = most.saturating_sub(self.waited);
        if left.is_zero() {
            let most = format!("{} s of it", most.as_secs());
            return Err(fault::limit("too much time waiting for other servers", most));
        }
        Ok(left)
    }

    /// Bytes of answers that the run has had.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts what came back, and how long it took.
    pub(super) fn charge(&mut self, bytes: usize, waited: Duration) {
        self.bytes += bytes;
        self.waited += waited;
    }
}

impl RunState {
    /// A place among the runs that wait for other servers. Waiting for it counts as waiting for them.
    pub(super) async fn turn(&mut self, web: &Web) -> Result<Place, Fault> {
        let started = Instant::now();
        let turn = web.turn(self.tenant()).await;
        self.outbound.charge(0, started.elapsed());
        turn.map_err(|full| {
            let message = format!("too many scripts are waiting for other servers: {full}");
            fault::new(FaultCode::Unavailable, message)
        })
    }
}

/// The answers of a run are larger than it may hold.
pub(super) fn too_many_bytes() -> Fault {
    fault::limit("too many bytes of answers", limits::HTTP_RUN_BYTES)
}

/// What a script sees of a request that got no answer. Addresses that names resolved to are not in it.
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
    fn a_run_has_so_many_requests_bytes_and_seconds() {
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
