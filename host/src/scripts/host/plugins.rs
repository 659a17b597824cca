//! `plugins`: calls the functions of plugins, charged to the calling run.
//!
//! A plugin computes within the run's polls, in the run's place in the processor pool. So its time counts into the run's
//! guest time, and the run's deadline ends the call.

use std::future::poll_fn;
use std::pin::pin;
use std::time::{Duration, Instant};

use super::bindings::belvedere::script::plugins::{Host, PluginFault};
use super::bindings::belvedere::script::types::{Fault, FaultCode};
use super::state::RunState;
use super::{fault, json};
use crate::plugins::calls;
use crate::scripts::failure::clip;
use crate::scripts::limits;
use crate::scripts::services::{PluginCall, PluginCallError};

impl Host for RunState {
    async fn call(
        &mut self,
        plugin: String,
        function: String,
        args: Vec<u8>,
    ) -> wasmtime::Result<Result<Vec<u8>, PluginFault>> {
        Ok(call(self, plugin, function, args).await)
    }
}

async fn call(
    state: &mut RunState,
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
    let call = PluginCall {
        plugin,
        function,
        args,
        caller: state.info.caller.did.clone(),
        has_session: state.has_session(),
        tenant: state.tenant().clone(),
    };
    let called = timed(plugins.call(call), &mut state.plugin_time).await;
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
        PluginCallError::Paused | PluginCallError::Busy => FaultCode::Unavailable,
        PluginCallError::Failed(cause) => {
            tracing::error!(function = what, cause, "a plugin failed while a script called it");
            FaultCode::Unavailable
        }
        PluginCallError::Fault(raised) => return raised_fault(what, raised),
    };
    fault::new(code, format!("{what}: {error}")).into()
}

fn raised_fault(what: &str, raised: &calls::Fault) -> PluginFault {
    let mut message = format!("{what}: {}", raised.message);
    clip(&mut message);
    PluginFault { code: raised.code.as_str().to_owned(), message, status: raised.status }
}

impl From<Fault> for PluginFault {
    fn from(fault: Fault) -> Self {
        Self { code: fault::code_name(fault.code).to_owned(), message: fault.message, status: fault.status }
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
