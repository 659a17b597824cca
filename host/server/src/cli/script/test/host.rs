//! Answers the calls of a test file to the host: `given.*`, `call.*` and `seen.*` are methods of the name `belvedere.test.*` in its run.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::StatusCode;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::world::{Refused, World};
use super::{call, given};
use belvedere_instance::xrpc::{Answer, Call, Caller};
use belvedere_protocol::atproto::Did;
use belvedere_scripting::scripts::{CallOutcome, Lineage, Xrpc, XrpcError};

/// In front of the name of each function.
const PREFIX: &str = "belvedere.test.";

/// The caller of the runs of test files: a procedure needs one.
const CALLER: &str = "did:web:test.invalid";

pub(super) fn caller() -> Caller {
    Caller { did: Did::try_from(CALLER).ok(), ..Caller::default() }
}

/// The methods of the run of one case.
#[derive(Clone, Debug)]
pub(super) struct TestMethods(pub(super) World);

impl Xrpc for TestMethods {
    fn call(&self, call: Call, _: Lineage) -> BoxFuture<'_, Result<CallOutcome, XrpcError>> {
        async move {
            // In a task of its own: what it calls takes turns at the processors, and the test's run gives its turn back only
            // when it waits.
            let methods = self.clone();
            let task = tokio::spawn(async move { Box::pin(methods.answer(&call)).await });
            let answered = AbortOnDropHandle::new(task).await;
            let answered = answered.map_err(|error| XrpcError::Unavailable(error.to_string()))?;
            let answer = match answered? {
                Ok(value) => Answer::json(StatusCode::OK, value.to_string().into()),
                Err(Refused(message)) => {
                    let body = json!({ "message": message });
                    Answer::json(StatusCode::BAD_REQUEST, body.to_string().into())
                }
            };
            Ok(CallOutcome { answer, is_remote: false })
        }
        .boxed()
    }
}

impl TestMethods {
    async fn answer(&self, call: &Call) -> Result<Result<Value, Refused>, XrpcError> {
        let Some(function) = call.nsid.as_str().strip_prefix(PREFIX) else {
            let text = format!("a test calls methods by call.query and call.procedure: {}", call.nsid);
            return Err(XrpcError::Invalid(text));
        };
        let input = call.input.as_deref().unwrap_or(b"{}");
        if let Some(done) = given::answer(&self.0, function, input).await {
            return Ok(done);
        }
        let called = call::answer(&self.0, function, call).await;
        called.ok_or_else(|| XrpcError::Invalid(format!("there is no function {function}")))
    }
}
