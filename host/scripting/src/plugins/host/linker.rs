//! Links a component with the capabilities that it imports.

use wasmtime::component::{HasSelf, Linker};
use wasmtime::{Engine, Result};

use super::state::CallState;
use super::wasi;
use crate::plugins::bindings::belvedere::plugin as capabilities;

/// A linker with the types of the contract, WASI, and the capabilities in `imports`.
pub(in crate::plugins) fn linker(engine: &Engine, imports: &[&'static str]) -> Result<Linker<CallState>> {
    type Own = HasSelf<CallState>;
    let mut linker = Linker::new(engine);
    let to = &mut linker;
    capabilities::types::add_to_linker::<_, Own>(to, |state| state)?;
    wasi::link(to)?;
    for import in imports {
        match *import {
            "log" => capabilities::log::add_to_linker::<_, Own>(to, |state| state)?,
            "clock" => capabilities::clock::add_to_linker::<_, Own>(to, |state| state)?,
            "secrets" => capabilities::secrets::add_to_linker::<_, Own>(to, |state| state)?,
            "kv" => capabilities::kv::add_to_linker::<_, Own>(to, |state| state)?,
            "http" => capabilities::http::add_to_linker::<_, Own>(to, |state| state)?,
            "lookup" => capabilities::lookup::add_to_linker::<_, Own>(to, |state| state)?,
            "attest" => capabilities::attest::add_to_linker::<_, Own>(to, |state| state)?,
            other => wasmtime::bail!("the capability {other} has no implementation"),
        }
    }
    Ok(linker)
}
