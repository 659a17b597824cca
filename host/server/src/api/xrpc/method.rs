//! `GET` and `POST /xrpc/{nsid}`: methods of the lexicon registry and of other servers, answered by `methods`.

use std::sync::Arc;

use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};

use super::input::{headers, is_for_another_server, params};
use super::{live, subscription};
use crate::access::{Admission, CalledMethod};
use crate::api::call_history;
use crate::api::charged::with_budget;
use crate::app::App;
use crate::methods::{self, fixed::FixedMethod};
use belvedere_instance::xrpc::{Answer, CONTENT_LABELERS, Call, CallHeaders, Caller, Origin, Verb};
use belvedere_protocol::atproto::{LexiconKind, Nsid};
use belvedere_web::http::{Error, Request, Response, response, websocket};

/// Headers of an answer whose body another server wrote.
pub(in crate::api) const FOREIGN: [(HeaderName, HeaderValue); 2] = [NOSNIFF, SANDBOX];
const NOSNIFF: (HeaderName, HeaderValue) = (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
/// A page of another server that a browser opens from our origin runs no script and belongs to no origin.
const SANDBOX: (HeaderName, HeaderValue) =
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));

pub async fn query(app: Arc<App>, caller: Caller, request: Request) -> Result<Response, Error> {
    let lexicon = app.registry.get(request.param("nsid"));
    if let Some(lexicon) = lexicon.filter(|_| !is_for_another_server(&app, &request)) {
        match lexicon.kind {
            LexiconKind::Subscription => {
                return subscription::answer(&app, caller, request, &lexicon).await;
            }
            LexiconKind::Query if websocket::is_upgrade(&request) => {
                return live::answer(&app, caller, request, lexicon.id.clone()).await;
            }
            _ => {}
        }
    }
    call(&app, Verb::Query, request.param("nsid"), caller, &request).await
}

pub async fn procedure(app: Arc<App>, caller: Caller, request: Request) -> Result<Response, Error> {
    call(&app, Verb::Procedure, request.param("nsid"), caller, &request).await
}

/// `GET /xrpc/app.bsky.actor.getProfile`
pub async fn get_profile(app: Arc<App>, caller: Caller, request: Request) -> Result<Response, Error> {
    call(&app, Verb::Query, FixedMethod::GetProfile.as_str(), caller, &request).await
}

/// `GET /xrpc/com.atproto.server.describeServer`: public, without a client key. A call of its script is charged and
/// counted as those of other methods.
pub async fn describe_server(app: Arc<App>, request: Request) -> Result<Response, Error> {
    let nsid = Nsid::try_from(FixedMethod::DescribeServer.as_str()).map_err(Error::internal)?;
    let (caller, headers) = (Caller::default(), CallHeaders::default());
    let mut call = Call { verb: Verb::Query, nsid, params: params(&request), input: None, caller, headers };
    if !methods::is_scripted(&app, &call) {
        return Ok(rendered(methods::answer(&app, &call).await?));
    }
    let method = CalledMethod { nsid: FixedMethod::DescribeServer.as_str(), verb: call.verb, is_fixed: true };
    let counted = call_history::begin(&app, method);
    match app.access.admit_public(&request, method) {
        Ok(Admission { caller, budget, .. }) => {
            call.caller = caller;
            let answer = methods::answer(&app, &call).await.map(rendered).map_err(Error::from);
            counted.end(&app, call.caller.client.as_deref(), &answer);
            with_budget(answer, budget)
        }
        Err(error) => {
            let answer = Err(error);
            counted.refused(&app, &request, &answer);
            answer
        }
    }
}

async fn call(
    app: &Arc<App>,
    verb: Verb,
    nsid: &str,
    caller: Caller,
    request: &Request,
) -> Result<Response, Error> {
    let nsid = Nsid::try_from(nsid).map_err(|_| Error::not_found("method not found"))?;
    let has_input = verb == Verb::Procedure && !request.body.is_empty();
    let input = has_input.then(|| request.body.clone());
    let call = Call { verb, nsid, params: params(request), input, caller, headers: headers(app, request)? };
    Ok(rendered(methods::answer(app, &call).await?))
}

pub(super) fn rendered(answer: Answer) -> Response {
    let Answer { status, body, origin } = answer;
    let Origin::Forwarded { content_type, content_labelers } = origin else {
        return response::json_bytes(status, body);
    };
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type.unwrap_or(response::JSON));
    response.headers_mut().extend(FOREIGN);
    response.headers_mut().extend(content_labelers.map(|labelers| (CONTENT_LABELERS, labelers)));
    response
}
