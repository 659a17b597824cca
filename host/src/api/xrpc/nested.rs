//! `xrpc.*` of scripts: the same methods as over HTTP, in process, as the same caller. They cost the same tokens, and
//! admins' rules about forwarding hold for them too.

use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Method, Request as HttpRequest, StatusCode};
use http_body_util::BodyExt as _;

use super::{forward, procedure, query};
use crate::access::{XrpcCaller, xrpc};
use crate::app::App;
use crate::atproto::{Did, LexiconKind, Nsid};
use crate::http::request::NO_PEER;
use crate::http::{Error, Request, Response, nul};
use crate::scripts::{Xrpc, XrpcAnswer, XrpcCall, XrpcError, XrpcVerb};

/// The way from a script back into the server that runs it. Made before the server is, because event scripts are among
/// the first things that it needs; calls are refused until [`InProcess::open`].
#[derive(Debug, Default)]
pub struct InProcess(OnceLock<Weak<App>>);

impl InProcess {
    /// From now on calls reach `app`.
    pub fn open(&self, app: &Arc<App>) {
        // Opened once, at the start.
        let _ = self.0.set(Arc::downgrade(app));
    }
}

impl Xrpc for InProcess {
    fn call(&self, call: XrpcCall) -> BoxFuture<'_, Result<XrpcAnswer, XrpcError>> {
        async move {
            let app = self.0.get().and_then(Weak::upgrade);
            let app =
                app.ok_or_else(|| XrpcError::Unavailable("the server is starting or ending".to_owned()))?;
            answer(app, call).await
        }
        .boxed()
    }
}

async fn answer(app: Arc<App>, call: XrpcCall) -> Result<XrpcAnswer, XrpcError> {
    let nsid = Nsid::try_from(call.nsid.as_str())
        .map_err(|_| XrpcError::Invalid(format!("{:?} is not an NSID", call.nsid)))?;
    let (expected, verb) = match call.verb {
        XrpcVerb::Query => (LexiconKind::Query, Method::GET),
        XrpcVerb::Procedure => (LexiconKind::Procedure, Method::POST),
    };
    let local = app.registry.get(nsid.as_str());
    if local.as_ref().is_some_and(|lexicon| lexicon.kind != expected) {
        return Err(XrpcError::Invalid(format!("{nsid} is no {}", call.verb.noun())));
    }
    let request = request(&app, &nsid, verb, &call)?;
    let forwarded = local.is_none();
    let result = match caller(&app, &nsid, &call) {
        Err(error) => Err(error),
        Ok(_) if forwarded => {
            // A run that waits for a stranger takes one of the places for such runs.
            let tenant = call.lineage.tenant();
            let _turn = app.web.turn(tenant).await.map_err(|full| {
                XrpcError::Unavailable(format!("too many scripts are waiting for other servers: {full}"))
            })?;
            match forward::forward(&app, tenant, &request).await {
                Err(forward::Refusal::Unreachable(cause)) => {
                    return Err(XrpcError::Unavailable(cause.to_string()));
                }
                other => other.map_err(Error::from),
            }
        }
        Ok(caller) => match call.verb {
            XrpcVerb::Query => query::handle(app, caller, request).await,
            XrpcVerb::Procedure => procedure::handle(app, caller, request).await,
        },
    };
    let (status, body) = whole(result.unwrap_or_else(|error| refused(error, &nsid))).await;
    Ok(XrpcAnswer { status: status.as_u16(), body, forwarded })
}

/// The caller of the run that calls, who pays for this call as for one over HTTP.
fn caller(app: &App, nsid: &Nsid, call: &XrpcCall) -> Result<XrpcCaller, Error> {
    let user = call
        .caller_did
        .as_deref()
        .map(|did| Did::try_from(did).map_err(|_| Error::unauthorized("the caller's DID is malformed")));
    xrpc::admit_nested(
        &app.access,
        call.client.as_deref(),
        user.transpose()?,
        call.authority.clone(),
        call.bound,
        call.lineage.clone(),
        nsid.as_str(),
    )
}

/// The request that the caller would have sent.
fn request(app: &App, nsid: &Nsid, method: Method, call: &XrpcCall) -> Result<Request, XrpcError> {
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&call.params).finish();
    let uri = if query.is_empty() { format!("/xrpc/{nsid}") } else { format!("/xrpc/{nsid}?{query}") };
    // As at the edge, which this call does not pass.
    if nul::in_uri(&uri) || call.input.as_deref().is_some_and(nul::in_json) {
        return Err(XrpcError::Invalid("params and input can't hold a NUL character (U+0000)".to_owned()));
    }
    let (head, ()) = HttpRequest::builder()
        .method(method)
        .uri(uri)
        .body(())
        .map_err(|error| XrpcError::Invalid(format!("params: {error}")))?
        .into_parts();
    Ok(Request {
        head,
        body: call.input.clone().unwrap_or_default(),
        params: vec![("nsid", nsid.to_string())],
        id: format!("nested-{}", app.random.hex(8)),
        peer: NO_PEER,
    })
}

/// What the caller would have got over HTTP.
fn refused(error: Error, nsid: &Nsid) -> Response {
    if let Some(cause) = &error.cause {
        tracing::error!(method = nsid.as_str(), cause = cause.to_string(), "a nested call failed");
    }
    error.into_response("")
}

async fn whole(response: Response) -> (StatusCode, Bytes) {
    let (head, body) = response.into_parts();
    // Bodies are in memory: reading one can't fail.
    (
        head.status,
        body.collect().await.map_or_else(|never| match never {}, http_body_util::Collected::to_bytes),
    )
}
