//! `/admin/service-identity`: how the instance is known to other servers (admin-api.md §10).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::{App, Topic};
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_instance::service_identity::{IdentityChange, Mode};
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::service_identity;
use belvedere_web::http::{Error, Request};

/// The keys stay here.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ServiceIdentity {
    mode: String,
    #[schemars(extend("format" = "did"))]
    did: Option<String>,
    #[schemars(extend("format" = "did"))]
    attached_account_did: Option<String>,
    setup_complete: bool,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// `GET /admin/service-identity`: the DID under which other servers know the instance. Null before the set-up.
pub async fn get(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<Option<ServiceIdentity>> {
    let row = service_identity::get(&app.db).await?;
    let view = row.map(|row| ServiceIdentity {
        mode: row.mode,
        did: row.did,
        attached_account_did: row.attached_account_did,
        setup_complete: row.setup_complete,
        created_at: row.created_at,
        updated_at: row.updated_at,
    });
    Ok(Json(view))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewIdentity {
    mode: Mode,
    did: Option<String>,
    signing_key_enc: Option<String>,
    rotation_key_enc: Option<String>,
    attached_account_did: Option<String>,
}

/// `PUT /admin/service-identity`: replaces the identity, which then has to be set up again.
pub async fn put(app: Arc<App>, admin: Admin, request: WithBody<NewIdentity>) -> EmptyResult {
    let NewIdentity { mode, did, signing_key_enc, rotation_key_enc, attached_account_did } =
        request.json()?;
    let mut change = checked(&app, mode, did.as_deref(), attached_account_did.as_deref())?;
    change.signing_key = signing_key_enc.map(|text| sealed("signing_key_enc", &text)).transpose()?;
    change.rotation_key = rotation_key_enc.map(|text| sealed("rotation_key_enc", &text)).transpose()?;
    replace(&app, &admin, change).await?;
    Ok(Empty)
}

/// Stores a new identity and announces it.
///
/// # Errors
/// 400 for a sealed key that can't be opened.
pub(in crate::api) async fn replace(app: &App, admin: &Admin, change: IdentityChange) -> Result<(), Error> {
    let mode = change.mode.as_str();
    app.identity_setup.replace(change).await?;
    app.changed(Topic::ServiceIdentity).await?;
    let event = Event::ServiceIdentityUpdated { actor: admin.did.to_string(), mode };
    app.events.record(event);
    Ok(())
}

/// A new identity without keys, if its DIDs fit its mode.
///
/// # Errors
/// 400 for DIDs that don't.
pub(in crate::api) fn checked(
    app: &App,
    mode: Mode,
    did: Option<&str>,
    attached_account: Option<&str>,
) -> Result<IdentityChange, Error> {
    let did = did.map(account).transpose()?;
    let attached_account = attached_account.map(account).transpose()?;
    let plc = |did: &Option<Did>| did.as_ref().is_none_or(|did| did.method() == "plc");
    let fits = match mode {
        Mode::DidWeb => {
            let own = did.as_ref().is_none_or(|did| app.access.origins.has_host_of(did));
            own.then_some(()).ok_or("did must be the did:web of one of this server's domains")
        }
        Mode::DidPlc => plc(&did).then_some(()).ok_or("did must be a did:plc"),
        Mode::AttachAccount => match &attached_account {
            None => Err("attached_account_did is missing"),
            Some(_) if !plc(&attached_account) => Err("attached_account_did must be a did:plc"),
            Some(_) if did.is_some() && did != attached_account => Err("did must be attached_account_did"),
            Some(_) => Ok(()),
        },
        Mode::NotExposed => Ok(()),
    };
    fits.map_err(Error::bad_request)?;
    let did = did.filter(|_| mode != Mode::NotExposed);
    let attached_account = attached_account.filter(|_| mode == Mode::AttachAccount);
    Ok(IdentityChange { mode, did, attached_account, signing_key: None, rotation_key: None })
}

fn account(text: &str) -> Result<Did, Error> {
    Did::parse_account(text).map_err(|error| Error::bad_request(error.to_string()))
}

fn sealed(name: &str, text: &str) -> Result<Vec<u8>, Error> {
    STANDARD.decode(text).map_err(|_| Error::bad_request(format!("{name} is not base64")))
}
