//! Forwards a call to the caller's own PDS with their session, and indexes what it wrote (auth-and-clients.md §8).

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Map, Value};

use super::{Failure, json_input, pds_session};
use crate::app::App;
use belvedere_instance::lexicons::forwarding::MAX_RESPONSE_BYTES;
use belvedere_instance::pds::{ForwardedCall, InvalidCall, RepoWrites, Session, StandardCall};
use belvedere_instance::repos::{RecordScripts, Validation};
use belvedere_instance::xrpc::{ACCEPT_LABELERS, Answer, Call, PROXY};
use belvedere_web::http::Error;

/// Calls the caller's PDS. Its response is the answer, whatever its status.
///
/// # Errors
/// 400 for a write to another repo or of an invalid record, 401 without a session, 502 when the PDS does not answer. A
/// call that the session's scopes don't allow is answered with 403 and not sent.
pub(super) async fn answer(app: &App, call: &Call) -> Result<Answer, Failure> {
    let session = pds_session::of(app, &call.caller, None).await?;
    let input = json_input(call)?;
    let requested = StandardCall::read(&call.nsid, &call.params, input.map(|input| &input[..]));
    let requested = requested.map_err(|invalid| match invalid {
        // The error is that of every other invalid record.
        InvalidCall::RecordType(_) => {
            Error::new(StatusCode::BAD_REQUEST, "InvalidRequest").with_message(invalid.to_string())
        }
        InvalidCall::Malformed(text) => Error::bad_request(text),
    })?;
    if let StandardCall::Write(writes) = &requested {
        if writes.is_foreign(&session.did) {
            return Err(Error::bad_request("repo must be the authenticated user").into());
        }
        if writes.validate {
            app.repos.check_writes(&writes.writes, Validation::Lexicon).map_err(Error::from)?;
        }
    }
    let agent = app.repos.agent(&session, &call.caller.tenant);
    // Clients name their AppView with every call. It is not passed on with methods that the PDS itself serves.
    let named = call.headers.service.as_ref();
    let service = match &requested {
        StandardCall::Remote(_) | StandardCall::Read => named.map(ToString::to_string),
        _ => None,
    };
    let mut headers = HeaderMap::new();
    headers.extend(call.headers.accept_labelers.clone().map(|labelers| (ACCEPT_LABELERS, labelers)));
    if let Some(service) = &service {
        headers.insert(PROXY, HeaderValue::try_from(service).map_err(Error::internal)?);
    }
    let forwarded = ForwardedCall {
        verb: call.verb.http_method(),
        path: &call.path_and_query(),
        input: input.cloned(),
        requested: &requested,
        service: service.as_deref(),
        headers,
    };
    let response = match agent.forward(forwarded, MAX_RESPONSE_BYTES).await {
        Ok(response) => response,
        Err(error) => return Ok(pds_session::failed(error)?),
    };
    if let StandardCall::Write(writes) = &requested
        && response.status.is_success()
    {
        mirror(app, &session, writes, &response.body).await;
    }
    let mut body = response.body;
    if matches!(requested, StandardCall::Session) && !agent.may_read_email() {
        body = without_email(&body);
    }
    Ok(Answer::forwarded(response.status, &response.headers, body))
}

/// The answer of `getSession` without the email address. The PDS knows the scopes that the session was made with, and
/// the application may have lost some since.
fn without_email(body: &[u8]) -> Bytes {
    let Ok(mut account) = serde_json::from_slice::<Map<String, Value>>(body) else { return Bytes::new() };
    account.retain(|name, _| !name.starts_with("email"));
    Value::Object(account).to_string().into()
}

/// Indexes what the PDS has accepted. A response that can't be read is left to the stream, which delivers the writes too.
async fn mirror(app: &App, session: &Session, requested: &RepoWrites, response: &[u8]) {
    match requested.committed(response) {
        Ok(committed) => {
            app.repos.mirror_writes(&session.did, &requested.writes, committed, RecordScripts::Now).await;
        }
        Err(error) => {
            tracing::warn!(pds = session.endpoint, %error, "a write was forwarded and not mirrored");
        }
    }
}
