//! A component, linked with the capabilities that it imports, and the interfaces that it exports.

use wasmtime::component::{Component, HasSelf, Instance, InstancePre, Linker};
use wasmtime::{Engine, Result, Store};

use super::bindings::belvedere::plugin as capabilities;
use super::bindings::exports::belvedere::plugin as exported;
use super::state::CallState;
use super::wasi;
use crate::plugins::engine::Exports;

/// A component, linked and ready to be instantiated.
pub(in crate::plugins) struct Program {
    pre: InstancePre<CallState>,
    describe: exported::describe::GuestIndices,
    linking: Option<exported::linking::GuestIndices>,
    sync: Option<exported::sync::GuestIndices>,
    callable: Option<exported::callable::GuestIndices>,
}

/// The exports of an instance of a component.
pub(in crate::plugins) struct Guest<'a> {
    instance: Instance,
    program: &'a Program,
}

impl Program {
    /// Links a component with its imports. Whether they were granted is checked before each call.
    pub(in crate::plugins) fn link(
        engine: &Engine,
        component: &Component,
        imports: &[&'static str],
        exports: Exports,
    ) -> Result<Self> {
        let pre = linker(engine, imports)?.instantiate_pre(component)?;
        Ok(Self {
            describe: exported::describe::GuestIndices::new(&pre)?,
            linking: exports.linking.then(|| exported::linking::GuestIndices::new(&pre)).transpose()?,
            sync: exports.sync.then(|| exported::sync::GuestIndices::new(&pre)).transpose()?,
            callable: exports.callable.then(|| exported::callable::GuestIndices::new(&pre)).transpose()?,
            pre,
        })
    }

    /// The component, ready to be instantiated.
    pub(in crate::plugins) fn pre(&self) -> &InstancePre<CallState> {
        &self.pre
    }

    /// The exports of an instance.
    pub(in crate::plugins) fn of(&self, instance: &Instance) -> Guest<'_> {
        Guest { instance: *instance, program: self }
    }
}

/// A linker with the types of the contract, WASI, and the capabilities in `imports`.
fn linker(engine: &Engine, imports: &[&'static str]) -> Result<Linker<CallState>> {
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

impl Guest<'_> {
    pub(in crate::plugins) fn describe(
        &self,
        store: &mut Store<CallState>,
    ) -> Result<exported::describe::Guest> {
        self.program.describe.load(store, &self.instance)
    }

    pub(in crate::plugins) fn linking(
        &self,
        store: &mut Store<CallState>,
    ) -> Result<exported::linking::Guest> {
        indices(self.program.linking.as_ref())?.load(store, &self.instance)
    }

    pub(in crate::plugins) fn sync(&self, store: &mut Store<CallState>) -> Result<exported::sync::Guest> {
        indices(self.program.sync.as_ref())?.load(store, &self.instance)
    }

    pub(in crate::plugins) fn callable(
        &self,
        store: &mut Store<CallState>,
    ) -> Result<exported::callable::Guest> {
        indices(self.program.callable.as_ref())?.load(store, &self.instance)
    }
}

/// Calls check what a plugin exports before they make an instance.
fn indices<T>(found: Option<&T>) -> Result<&T> {
    found.ok_or_else(|| wasmtime::Error::msg("the plugin does not export the interface"))
}
