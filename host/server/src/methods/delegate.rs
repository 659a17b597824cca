//! `delegateDid` in the body of a procedure: the caller writes for an account that is shared with them
//! (auth-and-clients.md §10).

use memchr::memmem;
use serde_json::{Map, Value};

use crate::access::delegation::{self, Role};
use crate::app::App;
use belvedere_instance::xrpc::Caller;
use belvedere_protocol::atproto::Did;
use belvedere_web::http::Error;

const FIELD: &str = "delegateDid";

/// The account that a body names, which is taken out of it.
///
/// # Errors
/// 400 when it is not a DID, 403 or 404 when the caller does not write for it, 403 for a caller that proved no session
/// of an application: the delegation is between that application's users.
pub(super) async fn take(
    app: &App,
    caller: &Caller,
    fields: &mut Map<String, Value>,
) -> Result<Option<Did>, Error> {
    let account = match fields.remove(FIELD) {
        None | Some(Value::Null) => return Ok(None),
        Some(account) => account,
    };
    let account = account.as_str().and_then(|text| Did::try_from(text).ok());
    let account = account.ok_or_else(|| Error::bad_request("delegateDid is not a DID"))?;
    let (Some(client), Some(user)) = (caller.proven_client(), &caller.did) else {
        return Err(Error::forbidden("delegateDid is for users of an application who call with DPoP"));
    };
    delegation::require_role(&app.access, client, &account, user, Role::Admin).await?;
    Ok(Some(account))
}

/// Like [`take`], for an unparsed body; returns the body without the field.
///
/// # Errors
/// As [`take`].
pub(super) async fn take_from(
    app: &App,
    caller: &Caller,
    body: &[u8],
) -> Result<Option<(Did, Vec<u8>)>, Error> {
    // Most bodies don't contain the field and are not parsed.
    if memmem::find(body, FIELD.as_bytes()).is_none() {
        return Ok(None);
    }
    let Ok(Value::Object(mut fields)) = serde_json::from_slice(body) else { return Ok(None) };
    let account = take(app, caller, &mut fields).await?;
    Ok(account.map(|account| (account, Value::Object(fields).to_string().into_bytes())))
}
