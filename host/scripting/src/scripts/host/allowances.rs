//! Counts what a run uses against its limits: other servers (`http.*`, `xrpc.*` and blobs together), and record writes.

use std::time::Duration;

use super::fault;
use crate::scripts::bindings::belvedere::script::types::Fault;
use crate::scripts::limits;

/// The resources of other servers that a run has used so far.
#[derive(Clone, Debug)]
pub(super) struct Outbound {
    /// Factor of this run's limits to those of an ordinary run.
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

    /// Requests that the run may still send.
    pub(super) fn requests_left(&self) -> u32 {
        (limits::HTTP_REQUESTS * self.factor).saturating_sub(self.requests)
    }

    /// Counts requests that a plugin sent for the run, out of [`Self::requests_left`].
    pub(super) fn count_sent(&mut self, requests: u32) {
        self.requests = self.requests.saturating_add(requests);
    }

    /// The time that the run may still wait for other servers.
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

    /// Adds the requests and the bytes between two states of a call.
    pub(super) fn add_used(&mut self, before: &Self, after: &Self) {
        self.requests = self.requests.saturating_add(after.requests - before.requests);
        self.bytes += after.bytes - before.bytes;
    }

    /// The time waited since another state of the same call.
    pub(super) fn waited_since(&self, before: &Self) -> Duration {
        self.waited.saturating_sub(before.waited)
    }
}

/// The fault of a run whose answers exceed [`limits::HTTP_RUN_BYTES`].
pub(super) fn too_many_bytes() -> Fault {
    fault::limit("too many bytes of answers", limits::HTTP_RUN_BYTES)
}

/// The records that a run has written so far.
#[derive(Debug, Default)]
pub(super) struct WriteCount {
    records: usize,
    bytes: usize,
}

impl WriteCount {
    pub(super) fn add(&mut self, records: usize, bytes: usize) -> Result<(), Fault> {
        self.records += records;
        self.bytes += bytes;
        if self.records > limits::RECORD_WRITES {
            return Err(fault::limit("too many records written", limits::RECORD_WRITES));
        }
        if self.bytes > limits::RECORD_WRITE_BYTES {
            return Err(fault::limit("too many bytes of records written", limits::RECORD_WRITE_BYTES));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts::bindings::belvedere::script::types::FaultCode;

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
