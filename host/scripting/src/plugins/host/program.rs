//! A component, linked with the capabilities that it imports, and the calls into an instance of it.

use std::sync::Arc;

use wasmtime::component::{Component, HasSelf, Instance as WasmInstance, InstancePre, Linker};
use wasmtime::{Engine, Result, Store};

use super::bindings::belvedere::plugin as capabilities;
use super::bindings::exports::belvedere::plugin as exported;
use super::state::CallState;
use super::{convert, wasi};
use crate::plugins::calls::{Callback, Fault, Function, Info, Page, Profile, Start, Tokens};
use crate::plugins::engine::Exports;

/// A component, linked and ready to be instantiated. Cheap to clone.
#[derive(Clone)]
pub(in crate::plugins) struct Program(Arc<Linked>);

struct Linked {
    pre: InstancePre<CallState>,
    describe: exported::describe::GuestIndices,
    linking: Option<exported::linking::GuestIndices>,
    sync: Option<exported::sync::GuestIndices>,
    callable: Option<exported::callable::GuestIndices>,
}

/// One instance of a component, in one store.
pub(in crate::plugins) struct Instance<'a> {
    instance: WasmInstance,
    linked: &'a Linked,
}

/// What a function of a plugin returns; `None` when the plugin does not export its interface.
type Answer<T> = Result<Option<std::result::Result<T, Fault>>>;

impl Program {
    /// Links a component with its imports. Whether they were granted is checked before each call.
    pub(in crate::plugins) fn link(
        engine: &Engine,
        component: &Component,
        imports: &[&'static str],
        exports: Exports,
    ) -> Result<Self> {
        let pre = linker(engine, imports)?.instantiate_pre(component)?;
        Ok(Self(Arc::new(Linked {
            describe: exported::describe::GuestIndices::new(&pre)?,
            linking: exports.linking.then(|| exported::linking::GuestIndices::new(&pre)).transpose()?,
            sync: exports.sync.then(|| exported::sync::GuestIndices::new(&pre)).transpose()?,
            callable: exports.callable.then(|| exported::callable::GuestIndices::new(&pre)).transpose()?,
            pre,
        })))
    }

    /// What instances are made of.
    pub(in crate::plugins) fn pre(&self) -> &InstancePre<CallState> {
        &self.0.pre
    }

    /// The functions of an instance.
    pub(in crate::plugins) fn of(&self, instance: &WasmInstance) -> Instance<'_> {
        Instance { instance: *instance, linked: &self.0 }
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

impl Instance<'_> {
    pub(in crate::plugins) async fn describe(&self, store: &mut Store<CallState>) -> Result<Info> {
        let guest = self.linked.describe.load(&mut *store, &self.instance)?;
        guest.call_get(store).await.map(convert::info)
    }

    pub(in crate::plugins) async fn authorize_url(
        &self,
        store: &mut Store<CallState>,
        start: Start,
    ) -> Answer<String> {
        let Some(guest) = self.linking(store)? else { return Ok(None) };
        let answer = guest.call_authorize_url(store, &convert::start(start)).await?;
        Ok(Some(answer.map_err(convert::fault)))
    }

    pub(in crate::plugins) async fn handle_callback(
        &self,
        store: &mut Store<CallState>,
        callback: Callback,
    ) -> Answer<Tokens> {
        let Some(guest) = self.linking(store)? else { return Ok(None) };
        let answer = guest.call_handle_callback(&mut *store, &convert::callback(callback)).await?;
        Ok(Some(tokens(store, answer)))
    }

    pub(in crate::plugins) async fn connect(
        &self,
        store: &mut Store<CallState>,
        config: &str,
    ) -> Answer<Tokens> {
        let Some(guest) = self.linking(store)? else { return Ok(None) };
        let answer = guest.call_connect(&mut *store, &config.to_owned()).await?;
        Ok(Some(tokens(store, answer)))
    }

    pub(in crate::plugins) async fn refresh(
        &self,
        store: &mut Store<CallState>,
        held: &Tokens,
        config: &str,
    ) -> Answer<Tokens> {
        let Some(guest) = self.linking(store)? else { return Ok(None) };
        let answer = guest.call_refresh(&mut *store, &convert::to_plugin(held), &config.to_owned()).await?;
        Ok(Some(tokens(store, answer)))
    }

    pub(in crate::plugins) async fn profile(
        &self,
        store: &mut Store<CallState>,
        held: &Tokens,
        config: &str,
    ) -> Answer<Profile> {
        let Some(guest) = self.linking(store)? else { return Ok(None) };
        let answer = guest.call_get_profile(store, &convert::to_plugin(held), &config.to_owned()).await?;
        Ok(Some(answer.map(convert::profile).map_err(convert::fault)))
    }

    pub(in crate::plugins) async fn revoke(&self, store: &mut Store<CallState>, held: &Tokens) -> Answer<()> {
        let Some(guest) = self.linking(store)? else { return Ok(None) };
        let answer = guest.call_revoke(store, &convert::to_plugin(held)).await?;
        Ok(Some(answer.map_err(convert::fault)))
    }

    pub(in crate::plugins) async fn pull(
        &self,
        store: &mut Store<CallState>,
        held: &Tokens,
        config: &str,
        cursor: Option<&str>,
    ) -> Answer<Page> {
        let Some(indices) = &self.linked.sync else { return Ok(None) };
        let guest = indices.load(&mut *store, &self.instance)?;
        let answer = guest.call_pull(store, &convert::to_plugin(held), &config.to_owned(), cursor).await?;
        Ok(Some(answer.map(convert::page).map_err(convert::fault)))
    }

    pub(in crate::plugins) async fn surface(
        &self,
        store: &mut Store<CallState>,
    ) -> Result<Option<Vec<Function>>> {
        let Some(indices) = &self.linked.callable else { return Ok(None) };
        let guest = indices.load(&mut *store, &self.instance)?;
        let functions = guest.call_surface(store).await?;
        Ok(Some(functions.into_iter().map(convert::function).collect()))
    }

    pub(in crate::plugins) async fn call_function(
        &self,
        store: &mut Store<CallState>,
        name: &str,
        args: &str,
        has_session: bool,
    ) -> Answer<String> {
        let Some(indices) = &self.linked.callable else { return Ok(None) };
        let caller = store.data().account_did();
        let context = exported::callable::Context { caller, has_session };
        let guest = indices.load(&mut *store, &self.instance)?;
        let answer = guest.call_call(store, name, &args.to_owned(), &context).await?;
        Ok(Some(answer.map_err(convert::fault)))
    }

    fn linking(&self, store: &mut Store<CallState>) -> Result<Option<exported::linking::Guest>> {
        let indices = self.linked.linking.as_ref();
        indices.map(|indices| indices.load(store, &self.instance)).transpose()
    }
}

/// Converts the tokens that a plugin returned, and hides them. Their lifetime counts from now.
fn tokens(
    store: &mut Store<CallState>,
    answer: std::result::Result<exported::linking::Tokens, capabilities::types::Fault>,
) -> std::result::Result<Tokens, Fault> {
    let given = answer.map_err(convert::fault)?;
    let state = store.data_mut();
    state.hide("access token", &given.access);
    if let Some(refresh) = &given.refresh {
        state.hide("refresh token", refresh);
    }
    convert::from_plugin(given, state.now())
}
