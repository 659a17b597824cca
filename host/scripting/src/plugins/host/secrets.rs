//! `secrets`: the plugin's own secrets.

use super::state::CallState;
use crate::plugins::bindings::belvedere::plugin::secrets::Host;
use crate::plugins::limits;

impl Host for CallState {
    fn get(&mut self, name: String) -> wasmtime::Result<Option<String>> {
        if name.len() > limits::TEXT_BYTES || self.account.is_none() || self.count_call().is_err() {
            return Ok(None);
        }
        let secret = (self.services.secrets)(&self.plugin, &name);
        if let Some(secret) = &secret {
            // It may have been set since the call began.
            self.hidden.add_secret(secret);
        }
        Ok(secret.map(|secret| secret.reveal().clone()))
    }
}
