//! Answers calls of plugins in place of the installed ones: `given.plugin` of test files.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use serde::Deserialize;
use serde_json::{Value, json};

use super::seen::Seen;
use belvedere_scripting::plugins::calls::{CallScope, Fault, FaultCode, RunContext};
use belvedere_scripting::scripts::services::{PluginCallError, PluginCalls};

/// Answers that a case may give, and their bytes: its own process keeps them.
const MAX_ANSWERS: usize = 1_000;
const MAX_BYTES: usize = 32 << 20;

/// The plugins of one case.
#[derive(Debug)]
pub(super) struct TestPlugins {
    seen: Arc<Seen>,
    given: Mutex<Given>,
}

#[derive(Debug, Default)]
struct Given {
    /// By plugin and function.
    functions: BTreeMap<String, BTreeMap<String, Vec<GivenCall>>>,
    answers: usize,
    bytes: usize,
}

/// One answer of a function. The last one that fits a call stays, those before it are given once each.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GivenCall {
    plugin: String,
    function: String,
    /// `None` fits all calls.
    args: Option<Vec<Value>>,
    #[serde(default)]
    result: Value,
    fails: Option<GivenFault>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenFault {
    code: String,
    message: Option<String>,
    status: Option<u16>,
}

impl TestPlugins {
    pub(super) fn new(seen: Arc<Seen>) -> Self {
        Self { seen, given: Mutex::default() }
    }

    fn given(&self) -> MutexGuard<'_, Given> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an answer. `bytes`: its size.
    ///
    /// # Errors
    /// The reason why the case may not give it.
    pub(super) fn add(&self, call: GivenCall, bytes: usize) -> Result<(), String> {
        if let Some(GivenFault { code, .. }) = &call.fails
            && FaultCode::parse(code).is_none()
        {
            return Err(format!("{code:?} is no code of a plugin's error, such as not-found"));
        }
        let mut given = self.given();
        (given.answers, given.bytes) = (given.answers + 1, given.bytes + bytes);
        if given.answers > MAX_ANSWERS || given.bytes > MAX_BYTES {
            return Err(format!("a case gives at most {MAX_ANSWERS} answers of {MAX_BYTES} bytes together"));
        }
        // Scripts may write either in the name of a plugin.
        let functions = given.functions.entry(call.plugin.replace('_', "-")).or_default();
        functions.entry(call.function.clone()).or_default().push(call);
        Ok(())
    }

    fn answer(&self, plugin: &str, function: &str, args: &str) -> Result<String, PluginCallError> {
        let arguments: Vec<Value> = serde_json::from_str(args).unwrap_or_default();
        let call = json!({ "plugin": plugin, "function": function, "args": arguments });
        self.seen.plugin_call(call, args.len());
        let mut given = self.given();
        let Some(functions) = given.functions.get_mut(&plugin.replace('_', "-")) else {
            return Err(PluginCallError::NoPlugin(given.functions.keys().cloned().collect()));
        };
        let names = functions.keys().cloned().collect();
        let calls = functions.get_mut(function).ok_or(PluginCallError::NoFunction(names))?;
        let fits = |call: &GivenCall| call.args.as_ref().is_none_or(|wanted| *wanted == arguments);
        let mut fitting = calls.iter().enumerate().filter(|(_, call)| fits(call)).map(|(at, _)| at);
        let (first, more) = (fitting.next(), fitting.next().is_some());
        let Some(at) = first else {
            let remedy = format!("given.plugin(\"{plugin}\", \"{function}\", {{ result = {{}} }})");
            let text =
                format!("plugin.{plugin}.{function} has no answer to {args} in this test: add {remedy}");
            self.seen.unanswered(text.clone());
            return Err(PluginCallError::Fault(Fault::new(FaultCode::Internal, text)));
        };
        let (result, fails) = (calls[at].result.to_string(), calls[at].fails.clone());
        if more {
            calls.remove(at);
        }
        match fails {
            None => Ok(result),
            Some(GivenFault { code, message, status }) => {
                let code = FaultCode::parse(&code).unwrap_or(FaultCode::Internal);
                let message = message.unwrap_or_else(|| code.as_str().to_owned());
                Err(PluginCallError::Fault(Fault { status, ..Fault::new(code, message) }))
            }
        }
    }
}

impl PluginCalls for TestPlugins {
    fn call<'a>(
        &'a self,
        plugin: &'a str,
        function: &'a str,
        args: &'a str,
        _: &'a CallScope,
        _: &'a RunContext,
    ) -> BoxFuture<'a, Result<String, PluginCallError>> {
        ready(self.answer(plugin, function, args)).boxed()
    }
}
