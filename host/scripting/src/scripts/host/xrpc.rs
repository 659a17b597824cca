//! `xrpc`: calls methods of this server, in process and as the same caller, and of other servers.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use serde_json::Value;

use super::state::{RunInfo, RunState};
use super::{Refusal, allowances, fault, json};
use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};
use crate::scripts::bindings::belvedere::script::xrpc::{Answer, Host, Outcome, QueryCall};
use crate::scripts::limits;
use crate::scripts::scheduling::Lineage;
use crate::scripts::services::{CallOutcome, Xrpc, XrpcError};
use belvedere_instance::xrpc::{Call, CallHeaders, Verb};
use belvedere_protocol::atproto::Nsid;

impl Host for RunState {
    async fn query(&mut self, nsid: String, params: Option<Vec<u8>>) -> Result<Answer, Refusal> {
        let answer = call(self, Verb::Query, nsid, None, params).await?;
        self.memory.hold_result(answer.body.len()).await?;
        Ok(answer)
    }

    async fn query_all(&mut self, calls: Vec<QueryCall>) -> Result<Vec<Outcome>, Refusal> {
        if calls.len() > limits::XRPC_BATCH {
            return Err(fault::limit("too many calls at once", limits::XRPC_BATCH).into());
        }
        let prepared: Vec<_> = calls
            .into_iter()
            .map(|QueryCall { nsid, params }| PreparedCall::new(self, Verb::Query, nsid, None, params))
            .collect();
        let results = self.memory.results.clone();
        results.begin().await;
        let (started, mut has_waited) = (Instant::now(), false);
        let calls = prepared.into_iter().map(async |call| match call {
            Ok(call) => Ok(call.made().await),
            Err(fault) => Err(fault),
        });
        let mut calls = pin!(stream::iter(calls).buffered(limits::XRPC_CONCURRENT));
        let mut outcomes = Vec::new();
        while let Some(made) = calls.next().await {
            has_waited |= made.as_ref().is_ok_and(|made| !made.waited.is_zero());
            outcomes.push(match made.and_then(|made| taken(self, made)) {
                Ok(answer) => {
                    // The host holds all answers until the last has come.
                    let _ = results.take(answer.body.len()).await;
                    results.check()?;
                    Outcome { answer: Some(answer), fault: None }
                }
                Err(fault) => Outcome { answer: None, fault: Some(fault) },
            });
        }
        if has_waited {
            self.outbound.charge(0, started.elapsed());
        }
        Ok(outcomes)
    }

    async fn procedure(
        &mut self,
        nsid: String,
        input: Option<Vec<u8>>,
        params: Option<Vec<u8>>,
    ) -> Result<Answer, Refusal> {
        let answer = call(self, Verb::Procedure, nsid, input, params).await?;
        self.memory.hold_result(answer.body.len()).await?;
        Ok(answer)
    }
}

async fn call(
    state: &mut RunState,
    verb: Verb,
    nsid: String,
    input: Option<Vec<u8>>,
    params: Option<Vec<u8>>,
) -> Result<Answer, Fault> {
    let made = PreparedCall::new(state, verb, nsid, input, params)?.made().await;
    state.outbound.charge(0, made.waited);
    taken(state, made)
}

/// A call that was checked and counted.
struct PreparedCall {
    xrpc: Arc<dyn Xrpc>,
    function: &'static str,
    call: Call,
    nested: Lineage,
}

/// A call that has ended.
struct MadeCall {
    function: &'static str,
    outcome: Result<CallOutcome, XrpcError>,
    /// The time for which the run waited for another server.
    waited: Duration,
}

impl PreparedCall {
    fn new(
        state: &mut RunState,
        verb: Verb,
        nsid: String,
        input: Option<Vec<u8>>,
        params: Option<Vec<u8>>,
    ) -> Result<Self, Fault> {
        let function = verb.trigger().as_str();
        let xrpc = state.service(function, |services| services.xrpc.clone())?;
        let RunInfo { caller, lineage, .. } = &state.info;
        if verb == Verb::Procedure && caller.did.is_none() {
            return Err(fault::forbidden(format!("{function} needs an authenticated caller")));
        }
        if verb == Verb::Procedure && caller.method_bound {
            let message = "the caller's token is for the called method only";
            return Err(fault::forbidden(format!("{function}: {message}")));
        }
        if lineage.depth() >= limits::XRPC_DEPTH {
            return Err(fault::limit("too many methods that call each other", limits::XRPC_DEPTH));
        }
        if nsid.len() > limits::NAME_BYTES {
            return Err(fault::new(
                FaultCode::BadInput,
                format!("{function}: the method's name is too long"),
            ));
        }
        let nsid = Nsid::try_from(nsid.as_str())
            .map_err(|_| fault::new(FaultCode::BadInput, format!("{function}: {nsid:?} is not an NSID")))?;
        let params = params.map(|json| query_params(state, function, &json)).transpose()?.unwrap_or_default();
        if let Some(input) = &input {
            json::check(state, &format!("{function}: input"), input, limits::XRPC_INPUT_BYTES)?;
        }
        let RunInfo { caller, lineage, .. } = &state.info;
        let (caller, headers) = (caller.clone(), CallHeaders::default());
        let call = Call { verb, nsid, params, input: input.map(Bytes::from), caller, headers };
        let nested = lineage.nested();
        lineage.count_call().map_err(|most| fault::limit("too many calls of methods", most))?;
        state.outbound.time_left()?;
        Ok(Self { xrpc, function, call, nested })
    }

    async fn made(self) -> MadeCall {
        let Self { xrpc, function, call, nested } = self;
        let started = Instant::now();
        let outcome = xrpc.call(call, nested).await;
        // A local method uses processor time, which has its own limit; a remote one makes the run wait.
        let is_remote = outcome.as_ref().map_or(true, |outcome| outcome.is_remote);
        let waited = if is_remote { started.elapsed() } else { Duration::ZERO };
        MadeCall { function, outcome, waited }
    }
}

/// The answer of a call, for whose bytes the run is charged.
fn taken(state: &mut RunState, made: MadeCall) -> Result<Answer, Fault> {
    let MadeCall { function, outcome, .. } = made;
    let CallOutcome { answer, .. } = outcome.map_err(|error| xrpc_fault(function, error))?;
    let bytes = answer.body.len();
    if bytes > limits::HTTP_BODY_BYTES {
        let max = limits::HTTP_BODY_BYTES;
        return Err(fault::new(
            FaultCode::Limit,
            format!("{function}: the answer is larger than {max} bytes"),
        ));
    }
    if state.outbound.bytes() + bytes > limits::HTTP_RUN_BYTES {
        return Err(allowances::too_many_bytes());
    }
    state.outbound.charge(bytes, Duration::ZERO);
    Ok(Answer { status: answer.status.as_u16(), body: answer.body.into() })
}

fn xrpc_fault(function: &str, error: XrpcError) -> Fault {
    let code = match error {
        XrpcError::Invalid(_) => FaultCode::BadInput,
        XrpcError::Forbidden(_) => FaultCode::Forbidden,
        XrpcError::Unavailable(_) => FaultCode::Unavailable,
    };
    fault::new(code, format!("{function}: {error}"))
}

/// Query parameters from an object: an array repeats its name, and null is left out.
pub(super) fn query_params(
    state: &mut RunState,
    function: &str,
    json: &[u8],
) -> Result<Vec<(String, String)>, Fault> {
    json::check(state, &format!("{function}: params"), json, limits::XRPC_PARAMS_BYTES)?;
    parse_query_params(function, json)
}

fn parse_query_params(function: &str, json: &[u8]) -> Result<Vec<(String, String)>, Fault> {
    let bad = |what: &str| fault::new(FaultCode::BadInput, format!("{function}: params: {what}"));
    let Ok(Value::Object(params)) = serde_json::from_slice(json) else {
        return Err(bad("a table with names is expected"));
    };
    let (mut pairs, mut bytes) = (Vec::with_capacity(params.len()), 0);
    for (name, value) in params {
        let values = match value {
            Value::Array(values) => values,
            single => vec![single],
        };
        for value in values {
            let text = match value {
                Value::Null => continue,
                Value::String(text) => text,
                Value::Bool(_) | Value::Number(_) => value.to_string(),
                Value::Array(_) | Value::Object(_) => {
                    return Err(bad(&format!("{name} is neither text nor number nor boolean")));
                }
            };
            // An array repeats its name for each value.
            bytes += name.len() + text.len();
            if bytes > limits::XRPC_PARAMS_BYTES {
                return Err(bad(&format!(
                    "more than {} bytes of names and values",
                    limits::XRPC_PARAMS_BYTES
                )));
            }
            pairs.push((name.clone(), text));
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_become_text() {
        let got =
            parse_query_params("xrpc.query", br#"{"b":true,"n":5,"f":1.5,"s":"x","a":["1",2],"none":null}"#)
                .unwrap();
        let mut got: Vec<(&str, &str)> = got.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        got.sort_unstable();
        let expected = [("a", "1"), ("a", "2"), ("b", "true"), ("f", "1.5"), ("n", "5"), ("s", "x")];
        assert_eq!(got, expected);
        for bad in [&b"[]"[..], b"7", br#"{"a":{}}"#, br#"{"a":[[]]}"#] {
            assert_eq!(parse_query_params("xrpc.query", bad).unwrap_err().code, FaultCode::BadInput);
        }
        let repeated = format!(r#"{{"{}":[{}0]}}"#, "n".repeat(1000), "0,".repeat(100));
        let fault = parse_query_params("xrpc.query", repeated.as_bytes()).unwrap_err();
        assert!(fault.message.contains("more than 65536 bytes"), "{}", fault.message);
    }
}
