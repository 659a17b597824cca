//! Methods in a dry run of a script: scripts run with the services of the dry run, built-in queries answer, and nothing
//! is written or sent to other servers.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::StatusCode;
use serde_json::value::RawValue;

use super::fixed::FixedMethod;
use super::reading::Reading;
use super::{TypedCall, WrongKind, describe_server, lexicon_of, query, view};
use crate::app::App;
use belvedere_instance::lexicons::Lexicon;
use belvedere_instance::xrpc::{Answer, Call, Verb};
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_scripting::scripts::{
    CallOutcome, CompiledScript, DryRun, DryWrite, Invocation, Lineage, ScriptFailure, Services, Xrpc,
    XrpcError,
};
use belvedere_scripting::views::View;
use belvedere_web::http::{Error, nul};

/// The methods that a dry run may call, for `xrpc.*`.
#[derive(Clone, Debug)]
pub struct DryRunMethods {
    app: Arc<App>,
    dry_run: DryRun,
}

impl DryRunMethods {
    pub fn new(app: &Arc<App>, dry_run: &DryRun) -> Self {
        Self { app: Arc::clone(app), dry_run: dry_run.clone() }
    }

    /// The services of the dry run, with its methods.
    pub fn services(&self) -> Services {
        let services = self.app.scripting.runtime.services.for_dry_run(&self.dry_run);
        services.with_xrpc(Arc::new(self.clone()))
    }

    /// Runs the script of a method. The lexicon need not exist yet.
    ///
    /// # Errors
    /// When the script fails without an answer of its own.
    pub async fn run(
        &self,
        script: &CompiledScript,
        call: &Call,
        delegate: Option<&Did>,
        lineage: Option<&Lineage>,
    ) -> Result<Answer, ScriptFailure> {
        let typed = match TypedCall::new(&self.app, call) {
            Ok(typed) => typed,
            Err(error) => return Ok(Answer::of_error(&error)),
        };
        let snapshot = self.app.registry.snapshot();
        let lexicon = snapshot.get(call.nsid.as_str());
        let invocation = Invocation {
            method: Some(call.nsid.as_str()),
            collection: lexicon.and_then(|lexicon| lexicon.target_collection.as_ref()).map(Nsid::as_str),
            caller: Some(&call.caller),
            delegate,
            params: Some(&call.params),
            values: typed.params.as_ref(),
            input: typed.input.as_deref(),
            lineage,
            ..Invocation::default()
        };
        match self.app.scripting.runtime.engine.run(script, invocation, &self.services()).await {
            Ok(outcome) => Ok(Answer::json(
                StatusCode::OK,
                snapshot.output_with_arrays(call.nsid.as_str(), outcome.body),
            )),
            Err(failure) => match failure.answer.as_deref() {
                Some(answer) => Ok(answer.to_caller().clone()),
                None => Err(failure),
            },
        }
    }

    /// Answers a call with a view, which need not be stored.
    pub async fn view(&self, view: &View, call: &Call) -> Answer {
        let answer = match TypedCall::new(&self.app, call) {
            Ok(typed) => view::run(&self.app, view, &typed, &self.reading()).await,
            Err(error) => Err(error),
        };
        answer.unwrap_or_else(|error| Answer::of_error(&error))
    }

    async fn nested(&self, mut call: Call, lineage: &Lineage) -> Result<Answer, XrpcError> {
        let lexicon = lexicon_of(&self.app, &call)
            .map_err(|WrongKind| XrpcError::Invalid(format!("{} is another kind of method", call.nsid)))?;
        let has_nul = call.params.iter().any(|(name, value)| name.contains('\0') || value.contains('\0'));
        if has_nul || call.input.as_deref().is_some_and(nul::in_json) {
            return Err(XrpcError::Invalid(
                "params and input can't hold a NUL character (U+0000)".to_owned(),
            ));
        }
        let fixed = FixedMethod::of(call.verb, &call.nsid);
        if lexicon.is_none() && fixed.is_none() {
            return Err(self.refusal(&call));
        }
        let trigger = format!("{}:{}", call.verb.trigger().as_str(), call.nsid);
        match (self.app.scripting.runtime.scripts.get(&trigger), call.verb) {
            (Some(stored), _) => {
                // Compiled again, so that the stored script's statistics don't count dry runs.
                let engine = &self.app.scripting.runtime.engine;
                let script = engine.compile(stored.trigger().clone(), stored.source()).await;
                Ok(self.run(&script, &call, None, Some(lineage)).await.unwrap_or_else(|failure| {
                    self.dry_run.log("warn", format!("{trigger} failed: {failure}"));
                    let status = StatusCode::INTERNAL_SERVER_ERROR;
                    Answer::of_error(&Error::new(status, failure.public_text()))
                }))
            }
            (None, Verb::Query) => match (fixed, lexicon) {
                // This server's own name is no secret.
                (Some(FixedMethod::DescribeServer), _) => Ok(describe_server::answer(&self.app)),
                (None, Some(lexicon)) => Ok(self.query(&lexicon, &call).await),
                _ => Err(self.refusal(&call)),
            },
            (None, Verb::Procedure) => {
                let input = call.input.take();
                let input: Option<&RawValue> =
                    input.as_deref().and_then(|input| serde_json::from_slice(input).ok());
                self.dry_run.write(&DryWrite::XrpcProcedure { nsid: call.nsid.as_str(), input });
                self.dry_run.answer_unsent();
                Ok(Answer::json(StatusCode::OK, "{}".into()))
            }
        }
    }

    async fn query(&self, lexicon: &Lexicon, call: &Call) -> Answer {
        let answer = match TypedCall::new(&self.app, call) {
            Ok(typed) => query(&self.app, lexicon, &typed, &self.reading()).await,
            Err(error) => Err(error),
        };
        answer.unwrap_or_else(|error| Answer::of_error(&error))
    }

    fn reading(&self) -> Reading {
        Reading::of_dry_run(&self.app, self.dry_run.options().network)
    }

    /// Methods of other servers are not called.
    fn refusal(&self, call: &Call) -> XrpcError {
        let function = call.verb.trigger().as_str();
        XrpcError::Forbidden(self.dry_run.refuse(&format!("{function} of {}", call.nsid)))
    }
}

impl Xrpc for DryRunMethods {
    fn call(&self, call: Call, lineage: Lineage) -> BoxFuture<'_, Result<CallOutcome, XrpcError>> {
        async move { Ok(CallOutcome { answer: Box::pin(self.nested(call, &lineage)).await?, is_remote: false }) }
            .boxed()
    }
}
