//! `/xrpc/com.atproto.simplespace.*`, `/xrpc/com.atproto.space.*` and the same in the service's own namespace: methods of
//! permissioned spaces (spaces.md §5, spaces-delta.md §3). One file per resource.

mod blobs;
mod credentials;
mod follows;
mod input;
mod invites;
mod members;
mod notifications;
mod ops;
mod records;
mod repos;
pub mod settings;
mod space;
mod writes;

use std::pin::Pin;
use std::sync::Arc;

use http::StatusCode;

use super::input::check_service_of_spaces;
use crate::access::{CalledMethod, Rejected, SpaceAdmission};
use crate::api::call_history;
use crate::api::charged::{paid, with_budget};
use crate::app::App;
use belvedere_instance::spaces::{Delegate, Viewer};
use belvedere_instance::xrpc::Verb;
use belvedere_protocol::atproto::Nsid;
use belvedere_web::http::body::UnreadBody;
use belvedere_web::http::{Error, Request, Response, limits};

type Answering = Pin<Box<dyn Future<Output = Result<Response, Error>> + Send>>;
type Handling<C> = fn(Arc<App>, C, Request) -> Answering;

/// The function that answers a method, for its kind of callers.
enum Handler {
    Viewer(Handling<Viewer>),
    Delegate(Handling<Delegate>),
}

/// A row of the table: the verb, the name, and the handler.
macro_rules! method {
    ($verb:ident, $name:literal, $handler:path) => {
        method!($verb, $name, $handler, Viewer)
    };
    ($verb:ident, $name:literal, $handler:path, $caller:ident) => {
        (
            Verb::$verb,
            $name,
            Handler::$caller(|app, caller, request| Box::pin($handler(app, caller, request))),
        )
    };
}

/// The methods by the last part of their names, which is the same in each namespace.
#[rustfmt::skip] // one line a method
const METHODS: &[(Verb, &str, Handler)] = &[
    method!(Procedure, "createSpace", space::create),
    method!(Query, "getSpace", space::get),
    method!(Procedure, "updateSpace", space::update),
    method!(Procedure, "deleteSpace", space::delete),
    method!(Query, "listSpaces", space::list),
    method!(Query, "getConfig", settings::get),
    method!(Procedure, "updateConfig", settings::update),

    method!(Procedure, "putMember", members::put),
    method!(Procedure, "addMember", members::add),
    method!(Procedure, "removeMember", members::remove),
    method!(Query, "listMembers", members::list),

    method!(Procedure, "createInvite", invites::create),
    method!(Procedure, "acceptInvite", invites::accept),
    method!(Procedure, "revokeInvite", invites::revoke),
    method!(Query, "listInvites", invites::list),

    method!(Procedure, "follow", follows::follow),
    method!(Procedure, "unfollow", follows::unfollow),

    method!(Query, "getDelegationToken", credentials::delegate),
    method!(Query, "getMemberGrant", credentials::delegate),
    method!(Procedure, "getSpaceCredential", credentials::exchange, Delegate),

    method!(Query, "getRecord", records::get),
    method!(Query, "listRecords", records::list),
    method!(Procedure, "createRecord", writes::create),
    method!(Procedure, "putRecord", writes::put),
    method!(Procedure, "deleteRecord", writes::delete),
    method!(Procedure, "applyWrites", writes::apply),

    method!(Query, "getLatestCommit", repos::latest_commit),
    method!(Query, "getRepoState", repos::latest_commit),
    method!(Query, "getRepo", repos::export),
    method!(Query, "listRepos", repos::list),
    method!(Query, "listRepoOps", ops::list),
    method!(Query, "listBlobs", blobs::list),
    method!(Query, "getBlob", blobs::get),

    method!(Procedure, "registerNotify", notifications::register),
    method!(Procedure, "unregisterNotify", notifications::unregister),
    method!(Procedure, "notifyWrite", notifications::write),
    method!(Procedure, "notifySpaceDeleted", notifications::space_deleted),
    method!(Procedure, "notifyCredentialRevoked", notifications::credential_revoked),
];

/// Answers a call of a method of spaces.
pub async fn answer(
    app: Arc<App>,
    verb: Verb,
    nsid: &Nsid,
    request: Request,
    unread: UnreadBody,
) -> Result<Response, Error> {
    app.spaces.check_enabled()?;
    check_service_of_spaces(&app, &request)?;
    let name = nsid.as_str().rsplit('.').next().unwrap_or_default();
    let found = METHODS.iter().find(|(of, known, _)| *of == verb && *known == name);
    let (.., handler) = found.ok_or_else(|| Error::not_found("method not found"))?;
    let method = CalledMethod { nsid: nsid.as_str(), verb, is_fixed: true };
    let call = call_history::begin(&app, method);
    match handler {
        Handler::Viewer(handler) => {
            let admitted = app.access.admit_space(&request, method).await;
            handled(app, call, admitted, *handler, request, unread).await
        }
        Handler::Delegate(handler) => {
            let admitted = app.access.admit_delegate(&request, method).await;
            handled(app, call, admitted, *handler, request, unread).await
        }
    }
}

/// Reads the body of an admitted call, and answers it.
async fn handled<C>(
    app: Arc<App>,
    call: call_history::Call,
    admitted: Result<SpaceAdmission<C>, Rejected>,
    handler: Handling<C>,
    mut request: Request,
    unread: UnreadBody,
) -> Result<Response, Error> {
    match admitted {
        Ok(SpaceAdmission { caller, client, budget }) => {
            let answer = async {
                request.body = unread.read(limits::JSON_BODY).await?;
                handler(Arc::clone(&app), caller, request).await
            };
            let answer = answer.await;
            call.end(&app, client.as_ref().map(|client| client.id.as_str()), &answer);
            with_budget(answer, budget)
        }
        Err(Rejected { error, budget }) => {
            let answer = Err(error);
            call.refused(&app, &request, &answer);
            answer.map_err(|error| paid(error, budget))
        }
    }
}

/// The status of an answer to a call that created something: 200 for methods of the protocol, 201 for those of the service's
/// own namespace, whose clients expect it (spaces-delta.md §3).
fn created(request: &Request) -> StatusCode {
    if request.uri().path().starts_with("/xrpc/com.atproto.") { StatusCode::OK } else { StatusCode::CREATED }
}
