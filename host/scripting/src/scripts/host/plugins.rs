//! `plugins`: calls the functions of plugins, charged to the calling run.
//!
//! A plugin computes within the run's polls, with the run's permit of the processor pool. So its time counts into the run's
//! guest time, and the run's deadline ends the call, as what is left of its fuel does. After each call what it computed is
//! taken out of that fuel, and its requests out of the run's requests to other servers.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use wasmtime::{StoreContextMut, Trap};

use super::state::RunState;
use super::{fault, json};
use crate::plugins::calls::{self, CallScope, RunContext};
use crate::scripts::bindings::belvedere::script::plugins::{Host, PluginFault};
use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};
use crate::scripts::limits;
use crate::scripts::services::PluginCallError;
use belvedere_base::error_text::cut;

/// The interface, as the guest imports it.
pub(super) const INTERFACE: &str = "belvedere:script/plugins@0.1.0";

/// Calls a function, and takes what it computed out of the run's fuel.
pub(super) async fn paid_call(
    store: &mut StoreContextMut<'_, RunState>,
    plugin: String,
    function: String,
    args: Vec<u8>,
) -> wasmtime::Result<Result<Vec<u8>, PluginFault>> {
    let mut left = store.get_fuel()?;
    let answer = call(store.data_mut(), left, plugin, function, args).await;
    let is_enough = store.data_mut().pay_plugin_fuel(&mut left);
    store.set_fuel(left)?;
    if is_enough { Ok(answer) } else { Err(Trap::OutOfFuel.into()) }
}

impl Host for RunState {
    async fn call(
        &mut self,
        plugin: String,
        function: String,
        args: Vec<u8>,
    ) -> wasmtime::Result<Result<Vec<u8>, PluginFault>> {
        // The linker replaces this. Without the run's fuel no plugin may compute.
        Ok(call(self, 0, plugin, function, args).await)
    }
}

/// Calls a function for a run that has `fuel` left.
async fn call(
    state: &mut RunState,
    fuel: u64,
    plugin: String,
    function: String,
    args: Vec<u8>,
) -> Result<Vec<u8>, PluginFault> {
    if plugin.len() > limits::NAME_BYTES || function.len() > limits::NAME_BYTES {
        return Err(fault::new(FaultCode::BadInput, "plugin: the name is too long").into());
    }
    let what = format!("plugin.{}.{}", plugin.escape_debug(), function.escape_debug());
    let plugins = state.service(&what, |services| services.plugins.clone())?;
    state.count_plugin_call()?;
    json::check(state, &format!("{what}: arguments"), &args, limits::PLUGIN_ARGS_BYTES)?;
    let args = String::from_utf8(args)
        .map_err(|_| fault::new(FaultCode::BadInput, format!("{what}: the arguments are not UTF-8")))?;
    // In a dry run plugins compute only: their requests and values may change something.
    let dry_run = state.dry_run().is_some();
    let requests = if dry_run { 0 } else { state.outbound.requests_left() };
    let run = RunContext {
        has_session: state.has_session(),
        read_only: dry_run || state.info.kind.only_reads(),
        requests_left: Arc::new(AtomicU32::new(requests)),
        time_left: Duration::from_micros(fuel / limits::PLUGIN_FUEL_PER_MICROSECOND),
        memory: state.lineage().memory().clone(),
    };
    let scope = CallScope { tenant: state.tenant().clone(), did: state.info.caller.did.clone(), flow: None };
    let called = timed(plugins.call(&plugin, &function, &args, &scope, &run), &mut state.plugin_time).await;
    state.outbound.count_sent(requests.saturating_sub(run.requests_left.load(Ordering::Relaxed)));
    let result = called.map_err(|error| plugin_fault(&what, error))?.into_bytes();
    json::check(state, &format!("{what}: the result"), &result, limits::PLUGIN_RESULT_BYTES).map_err(
        |mut fault| {
            // The plugin made it.
            if fault.code == FaultCode::BadInput {
                fault.code = FaultCode::Upstream;
            }
            fault
        },
    )?;
    Ok(result)
}

/// Runs `work` and adds the time of its polls to `spent`, also when it is dropped before it ends.
async fn timed<T>(work: impl Future<Output = T>, spent: &mut Duration) -> T {
    let mut work = pin!(work);
    poll_fn(|context| {
        let started = Instant::now();
        let polled = work.as_mut().poll(context);
        *spent += started.elapsed();
        polled
    })
    .await
}

fn plugin_fault(what: &str, error: PluginCallError) -> PluginFault {
    let code = match &error {
        PluginCallError::NoPlugin(_) | PluginCallError::NoFunction(_) => FaultCode::BadInput,
        PluginCallError::Paused | PluginCallError::Busy | PluginCallError::Failed(_) => {
            FaultCode::Unavailable
        }
        PluginCallError::Fault(raised) => return raised_fault(what, raised),
    };
    fault::new(code, format!("{what}: {error}")).into()
}

fn raised_fault(what: &str, raised: &calls::Fault) -> PluginFault {
    let mut message = format!("{what}: {}", raised.message);
    cut(&mut message, limits::FAILURE_TEXT_BYTES);
    PluginFault { code: raised.code.as_str().to_owned(), message, status: raised.status }
}

impl From<Fault> for PluginFault {
    fn from(fault: Fault) -> Self {
        Self { code: fault.code.as_str().to_owned(), message: fault.message, status: fault.status }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_time_of_polls_is_counted_also_of_a_call_that_is_dropped() {
        let busy = Duration::from_millis(5);
        let mut spent = Duration::ZERO;
        let work = async {
            let started = Instant::now();
            while started.elapsed() < busy {
                std::hint::spin_loop();
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = timed(work, &mut spent) => unreachable!("it waits for ever"),
            () = tokio::task::yield_now() => {}
        }
        assert!(spent >= busy, "{spent:?}");
    }
}
