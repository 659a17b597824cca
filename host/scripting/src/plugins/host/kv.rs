//! `kv`: the plugin's own values.

use super::state::CallState;
use super::{Refusal, fault};
use crate::plugins::bindings::belvedere::plugin::kv::{Host, Scope};
use crate::plugins::bindings::belvedere::plugin::types::{Fault, FaultCode};
use crate::plugins::limits;
use belvedere_storage::store::plugin_values::{self, Expiry, Quota, ValueKey};
use belvedere_web::fair_share::Permit;

impl Host for CallState {
    async fn get(&mut self, scope: Scope, key: String) -> Result<Option<Vec<u8>>, Refusal> {
        let owner = owner(self, "kv.get", scope, &key)?;
        let key = value_key(self, scope, &owner, &key);
        let found = plugin_values::get(&self.services.db, &key, self.now()).await;
        Ok(found.map_err(|error| fault::store("kv.get", &error))?)
    }

    async fn set(
        &mut self,
        scope: Scope,
        key: String,
        value: Vec<u8>,
        ttl_s: Option<u32>,
    ) -> Result<(), Refusal> {
        let owner = owner(self, "kv.set", scope, &key)?;
        self.count_write("kv.set")?;
        let (bytes, ttl_s) = match scope {
            Scope::Flow => {
                let ttl = ttl_s.unwrap_or(limits::KV_FLOW_SECONDS).min(limits::KV_FLOW_SECONDS);
                (limits::KV_FLOW_BYTES, Some(ttl))
            }
            Scope::Account | Scope::Plugin => (limits::KV_BYTES, ttl_s),
        };
        let now = self.now();
        let at = |seconds: u32| now.plus_seconds(i64::from(seconds));
        let unlinked_ttl = ttl_s.unwrap_or(u32::MAX).min(limits::KV_UNLINKED_SECONDS);
        let expiry = Expiry { linked: ttl_s.map(at), unlinked: at(unlinked_ttl) };
        let _permit = write_permit(self, "kv.set").await?;
        self.wait_for_host(true);
        let (key, quota) = (value_key(self, scope, &owner, &key), Quota { bytes, keys: limits::KV_KEYS });
        let stored = plugin_values::set(&self.services.db, &key, &value, expiry, quota, now).await;
        self.wait_for_host(false);
        if stored.map_err(|error| fault::store("kv.set", &error))? {
            return Ok(());
        }
        let text = format!("kv.set: more than {bytes} bytes or {} keys", limits::KV_KEYS);
        Err(fault::new(FaultCode::Quota, text).into())
    }

    async fn delete(&mut self, scope: Scope, key: String) -> Result<bool, Refusal> {
        let owner = owner(self, "kv.delete", scope, &key)?;
        self.count_write("kv.delete")?;
        let _permit = write_permit(self, "kv.delete").await?;
        let key = value_key(self, scope, &owner, &key);
        let removed = plugin_values::delete(&self.services.db, &key, self.now()).await;
        Ok(removed.map_err(|error| fault::store("kv.delete", &error))?)
    }
}

/// Waits for the permit of a write.
async fn write_permit(state: &mut CallState, function: &str) -> Result<Permit, Fault> {
    let permit = state.permits.write(&state.plugin, state.time_left()).await;
    permit.map_err(|full| {
        fault::new(FaultCode::RateLimited, format!("{function}: too many values are being written: {full}"))
    })
}

/// The owner of the values of a scope, for a counted call with a valid key.
fn owner(state: &mut CallState, function: &str, scope: Scope, key: &str) -> Result<String, Fault> {
    let account = state.account(function)?;
    let owner = match scope {
        Scope::Flow => account.flow.clone(),
        Scope::Account => account.did.as_ref().map(ToString::to_string),
        Scope::Plugin => Some(String::new()),
    };
    state.count_call()?;
    if key.is_empty() || key.len() > limits::KV_KEY_BYTES || key.contains('\0') {
        let max = limits::KV_KEY_BYTES;
        return Err(fault::bad_input(format!("{function}: a key has 1 to {max} bytes and no U+0000")));
    }
    let what = if scope == Scope::Flow { "part of no sign-in" } else { "about no account" };
    owner.ok_or_else(|| fault::new(FaultCode::NotLinked, format!("{function}: the call is {what}")))
}

fn value_key<'a>(state: &'a CallState, scope: Scope, owner: &'a str, key: &'a str) -> ValueKey<'a> {
    let scope = match scope {
        Scope::Flow => plugin_values::Scope::Flow,
        Scope::Account => plugin_values::Scope::Account,
        Scope::Plugin => plugin_values::Scope::Plugin,
    };
    ValueKey { plugin: &state.plugin, scope, owner, key }
}
