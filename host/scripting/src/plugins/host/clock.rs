//! `clock`: the current time, and random bytes.

use wasmtime::bail;

use super::state::CallState;
use crate::plugins::bindings::belvedere::plugin::clock::Host;
use crate::plugins::limits;

impl Host for CallState {
    fn now_ms(&mut self) -> wasmtime::Result<u64> {
        Ok(u64::try_from(self.services.clock.now().0 / 1_000).unwrap_or(0))
    }

    fn random(&mut self, len: u32) -> wasmtime::Result<Vec<u8>> {
        if len > limits::RANDOM_BYTES {
            bail!("asked for {len} random bytes; the most are {}", limits::RANDOM_BYTES);
        }
        let mut bytes = vec![0; len as usize];
        self.services.random.fill(&mut bytes);
        Ok(bytes)
    }
}
