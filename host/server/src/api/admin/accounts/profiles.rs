//! `/admin/accounts`: the names of accounts, for pages that show DIDs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithQuery;
use crate::app::App;
use belvedere_protocol::atproto::{Cid, Did};
use belvedere_scripting::scripts::Profile;
use belvedere_storage::store::users;
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::Error;

/// Accounts of one request: those of a page of the dashboard.
const MAX_ACCOUNTS: usize = 100;

/// Bytes of the profile records of one request.
const RECORD_BYTES: usize = 4 << 20;

/// Characters of a display name: a longer one is cut, because no page has room for it.
const NAME_CHARS: usize = 100;

/// Maximum time of the look-ups of admin users' handles: a page shows DIDs until it has the answer.
const HANDLE_TIME: Duration = Duration::from_secs(2);

#[derive(Debug, Deserialize, JsonSchema)]
pub struct AccountsQuery {
    /// A DID; repeated for more accounts, up to 100.
    #[expect(dead_code, reason = "describes the parameter: a repeated one is read from the query itself")]
    did: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Accounts {
    /// In the order of the request, one for each DID.
    accounts: Vec<Account>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Account {
    did: Did,
    /// The verified handle. Absent while it is not known: those of accounts in the index are looked up later.
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<String>,
    /// From the profile record. Absent for an account that is hidden, or has no valid profile in the index.
    #[serde(rename = "displayName", skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    /// The CID of the picture that `GET /admin/accounts/{did}/picture` answers. Absent without one, and while the PDS is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    avatar: Option<String>,
}

/// An account with what its profile record says.
#[derive(Debug)]
pub(super) struct NamedAccount {
    pub(super) did: Did,
    handle: Option<String>,
    pub(super) pds: Option<String>,
    display_name: Option<String>,
    pub(super) picture: Option<Cid>,
}

impl From<Profile> for NamedAccount {
    fn from(Profile { did, handle, pds, record, .. }: Profile) -> Self {
        let record = record.and_then(|full| serde_json::from_slice(&full.row.record).ok());
        let record: Value = record.unwrap_or_default();
        let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str);
        let name = text("/displayName").map(|name| name.trim().chars().take(NAME_CHARS).collect::<String>());
        Self {
            display_name: name.filter(|name| !name.is_empty()),
            picture: text("/avatar/ref/$link").and_then(|cid| cid.parse().ok()),
            did,
            handle,
            pds,
        }
    }
}

impl From<NamedAccount> for Account {
    fn from(NamedAccount { did, handle, pds, display_name, picture }: NamedAccount) -> Self {
        Self {
            did,
            handle,
            display_name,
            avatar: picture.filter(|_| pds.is_some()).map(|cid| cid.to_string()),
        }
    }
}

/// The accounts with these DIDs, in their order.
pub(super) async fn read(app: &App, tenant: &Tenant, dids: Vec<Did>) -> Result<Vec<NamedAccount>, Error> {
    let profiles = app.scripting.profiles.read(tenant, dids, RECORD_BYTES).await?;
    Ok(profiles.into_iter().map(NamedAccount::from).collect())
}

/// The DIDs of the query, each once.
fn dids_of(request: &WithQuery<AccountsQuery>) -> Result<Vec<Did>, Error> {
    let mut dids = Vec::new();
    for (_, text) in request.query_pairs().filter(|(name, _)| name == "did") {
        let did = Did::try_from(&*text).map_err(|error| Error::bad_request(format!("did: {error}")))?;
        if !dids.contains(&did) {
            dids.push(did);
        }
        if dids.len() > MAX_ACCOUNTS {
            return Err(Error::bad_request(format!("at most {MAX_ACCOUNTS} accounts in one request")));
        }
    }
    if dids.is_empty() {
        return Err(Error::bad_request("did is missing: send the DIDs of the accounts as did=…&did=…"));
    }
    Ok(dids)
}

/// `GET /admin/accounts`: the handles, display names and pictures of accounts, from what is stored.
pub async fn list(app: Arc<App>, admin: Admin, request: WithQuery<AccountsQuery>) -> JsonResult<Accounts> {
    let dids = dids_of(&request)?;
    let tenant = Tenant::of_did(admin.did.as_str());
    let mut accounts: Vec<Account> =
        read(&app, &tenant, dids).await?.into_iter().map(Account::from).collect();
    let nameless: Vec<&Did> =
        accounts.iter().filter(|one| one.handle.is_none()).map(|one| &one.did).collect();
    let mut handles = handles_of_users(&app, &nameless).await?;
    for account in &mut accounts {
        account.handle = account.handle.take().or_else(|| handles.remove(&account.did));
    }
    Ok(Json(Accounts { accounts }))
}

/// The handles of the admin users among `dids`, who need no record in the index (`docs/adr/0122-users-have-names.md`).
async fn handles_of_users(app: &App, dids: &[&Did]) -> Result<HashMap<Did, String>, Error> {
    let names: Vec<&str> = dids.iter().map(|did| did.as_str()).collect();
    let users = users::among(&app.db, &names).await?;
    let users: Vec<Did> = users.iter().filter_map(|did| Did::try_from(did.as_str()).ok()).collect();
    Ok(app.core.resolver.handles(&users, |_| true, HANDLE_TIME).await.verified)
}
