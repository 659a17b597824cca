//! A component, linked with the capabilities that it imports, and the interfaces that it exports.

use wasmtime::component::{Component, Instance, InstancePre};
use wasmtime::{Engine, Result, Store};

use super::Exports;
use crate::plugins::bindings::exports::belvedere::plugin as exported;
use crate::plugins::host::{self, CallState};

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
        let pre = host::linker(engine, imports)?.instantiate_pre(component)?;
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
