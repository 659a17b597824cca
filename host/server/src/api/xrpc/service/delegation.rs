//! `dev.service.delegation.*`: links accounts that several users of an application write for, and manages their
//! delegates.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::access::ClientUser;
use crate::access::delegation::{self, Role};
use crate::access::dpop::PresentedProof;
use crate::app::App;
use belvedere_instance::config::Secret;
use belvedere_instance::events::Event;
use belvedere_protocol::atproto::{Did, typed};
use belvedere_storage::store::delegates::{self, DelegateRow};
use belvedere_storage::store::{StoreError, oauth_sessions};
use belvedere_web::http::{Error, Request, Response, response};

fn did(name: &str, text: &str) -> Result<Did, Error> {
    Did::try_from(&*typed(text)).map_err(|_| Error::bad_request(format!("{name} is not a DID")))
}

fn query_did(request: &Request, name: &'static str) -> Result<Did, Error> {
    let text = request.query(name).ok_or_else(|| Error::bad_request(format!("{name} is missing")))?;
    did(name, &text)
}

/// Maximum delegates of one account: more than any editorial team, few enough to read all at once.
const MAX_DELEGATES: usize = 200;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AddDelegateBody {
    account_did: String,
    user_did: String,
    role: String,
}

/// `POST delegation.addDelegate`: adds a user who may write to the account (`admin`), or only see it (`member`). Owners
/// add both, admins add members.
pub async fn add_delegate(app: Arc<App>, caller: ClientUser, request: Request) -> Result<Response, Error> {
    let body: AddDelegateBody = request.json()?;
    let (account, user) = (did("accountDid", &body.account_did)?, did("userDid", &body.user_did)?);
    let Some(role @ (Role::Admin | Role::Member)) = Role::from_name(&body.role) else {
        return Err(Error::bad_request("role must be admin or member"));
    };
    let client = &caller.client.id;
    let needed = if role == Role::Admin { Role::Owner } else { Role::Admin };
    delegation::require_role(&app.access, client, &account, &caller.did, needed).await?;
    let known = delegates::of_account(&app.db, client, account.as_str()).await?;
    if known.len() >= MAX_DELEGATES {
        return Err(Error::bad_request(format!("the account already has {MAX_DELEGATES} delegates")));
    }
    let row = DelegateRow {
        account_did: account.to_string(),
        user_did: user.to_string(),
        role: role.as_str().to_owned(),
        granted_by: caller.did.to_string(),
        created_at: app.clock.now(),
    };
    delegates::add(&app.db, client, &row).await.map_err(|error| match error {
        StoreError::Conflict(_) => Error::conflict("the user is already a delegate of this account"),
        other => Error::from(other),
    })?;
    app.events.record(Event::DelegateAdded {
        actor: caller.did.to_string(),
        user: row.user_did,
        account: row.account_did,
        role: role.as_str(),
    });
    Ok(response::json(StatusCode::CREATED, &json!({})))
}

/// `GET delegation.getAccount?did=`: the caller's role in an account, and who linked it. The account itself may call
/// this too; its role is `account`.
pub async fn get_account(app: Arc<App>, caller: ClientUser, request: Request) -> Result<Response, Error> {
    let (account, client) = (query_did(&request, "did")?, &caller.client.id);
    let own = delegation::caller_role(&app.access, client, &account, &caller.did).await?;
    let all = delegates::of_account(&app.db, client, account.as_str()).await?;
    let owner = all.into_iter().find(|row| row.role == "owner");
    let answer = json!({
        "did": account.as_str(),
        "role": own.as_str(),
        "linkedBy": owner.as_ref().map(|owner| owner.user_did.as_str()),
        "createdAt": owner.as_ref().map(|owner| owner.created_at),
    });
    Ok(response::json(StatusCode::OK, &answer))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LinkAccountBody {
    did: String,
    /// The access token that the account's session was registered with.
    account_token: Option<Secret<String>>,
    /// A DPoP proof for this request by the account's key.
    account_proof: Option<String>,
}

/// `POST delegation.linkAccount`: makes the caller the owner of an account that other users may then write for. A proof
/// with that account's own session shows that its holder agrees.
pub async fn link_account(app: Arc<App>, caller: ClientUser, request: Request) -> Result<Response, Error> {
    let body: LinkAccountBody = request.json()?;
    let account = did("did", &body.did)?;
    if account == caller.did {
        return Err(Error::bad_request("you can't link your own account"));
    }
    let (Some(token), Some(proof)) = (&body.account_token, &body.account_proof) else {
        let text = "accountToken and accountProof are required: they show that the account's holder agrees";
        return Err(Error::bad_request(text));
    };
    let (method, path) = (request.method(), request.uri().path());
    let presented = PresentedProof { method, path, token: token.reveal(), proof };
    let session = app.access.proofs.verify(&caller.client, &presented).await?;
    if session.did != account {
        return Err(Error::bad_request("accountProof is by a session of another account"));
    }
    let owner = DelegateRow {
        account_did: account.to_string(),
        user_did: caller.did.to_string(),
        role: Role::Owner.as_str().to_owned(),
        granted_by: caller.did.to_string(),
        created_at: app.clock.now(),
    };
    delegates::add(&app.db, &caller.client.id, &owner).await.map_err(|error| match error {
        StoreError::Conflict(_) => Error::conflict("the account is already linked"),
        other => Error::from(other),
    })?;
    let (actor, account) = (caller.did.to_string(), account.to_string());
    app.events.record(Event::AccountLinked { actor, account: account.clone() });
    Ok(response::json(StatusCode::CREATED, &json!({ "did": account })))
}

/// `GET delegation.listAccounts`: the accounts that the caller is a delegate of.
pub async fn list_accounts(app: Arc<App>, caller: ClientUser, _request: Request) -> Result<Response, Error> {
    let rows = delegates::of_user(&app.db, &caller.client.id, caller.did.as_str()).await?;
    let accounts: Vec<Value> = rows
        .iter()
        .map(|row| json!({ "did": row.account_did, "role": row.role, "createdAt": row.created_at }))
        .collect();
    Ok(response::json(StatusCode::OK, &json!({ "accounts": accounts })))
}

/// `GET delegation.listDelegates?accountDid=`: the delegates of an account. For its delegates and the account itself.
pub async fn list_delegates(app: Arc<App>, caller: ClientUser, request: Request) -> Result<Response, Error> {
    let (account, client) = (query_did(&request, "accountDid")?, &caller.client.id);
    delegation::caller_role(&app.access, client, &account, &caller.did).await?;
    let rows = delegates::of_account(&app.db, client, account.as_str()).await?;
    let delegates: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({ "userDid": row.user_did, "role": row.role, "grantedBy": row.granted_by,
                "createdAt": row.created_at })
        })
        .collect();
    Ok(response::json(StatusCode::OK, &json!({ "delegates": delegates })))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RemoveDelegateBody {
    account_did: String,
    user_did: String,
}

/// `POST delegation.removeDelegate`: removes a delegate, but never the owner. Admins remove members, the owner and the
/// account itself remove admins too, and every delegate may remove themselves.
pub async fn remove_delegate(app: Arc<App>, caller: ClientUser, request: Request) -> Result<Response, Error> {
    let body: RemoveDelegateBody = request.json()?;
    let (account, user) = (did("accountDid", &body.account_did)?, did("userDid", &body.user_did)?);
    let client = &caller.client.id;
    let own = delegation::caller_role(&app.access, client, &account, &caller.did).await?;
    let other = delegates::of_account(&app.db, client, account.as_str()).await?;
    let other = other.into_iter().find(|row| row.user_did == user.as_str());
    let other = other.and_then(|row| Role::from_name(&row.role));
    let other = other.ok_or_else(|| Error::not_found("the user is not a delegate of this account"))?;
    if other == Role::Owner {
        return Err(Error::forbidden("the owner can't be removed: unlink the account instead"));
    }
    if user != caller.did && !own.may_remove(other) {
        return Err(Error::forbidden("removing a delegate requires a higher role than theirs"));
    }
    delegates::remove(&app.db, client, account.as_str(), user.as_str()).await?;
    app.events.record(Event::DelegateRemoved {
        actor: caller.did.to_string(),
        user: user.to_string(),
        account: account.to_string(),
    });
    Ok(response::json(StatusCode::OK, &json!({})))
}

#[derive(Deserialize)]
struct UnlinkAccountBody {
    did: String,
}

/// `POST delegation.unlinkAccount`: unlinks an account; for its owner and the account itself. Removes its delegates and
/// ends its sessions under the application, except the caller's own when the account itself calls this.
pub async fn unlink_account(app: Arc<App>, caller: ClientUser, request: Request) -> Result<Response, Error> {
    let body: UnlinkAccountBody = request.json()?;
    let account = did("did", &body.did)?;
    let client = &caller.client.id;
    if !delegation::caller_role(&app.access, client, &account, &caller.did).await?.may_unlink() {
        return Err(Error::forbidden("requires the role owner in this account, or the account itself"));
    }
    delegates::unlink(&app.db, client, account.as_str()).await?;
    for device in oauth_sessions::devices(&app.db, client, account.as_str()).await? {
        if *device.id != *caller.session {
            app.sessions.vault.end(&device.id).await?;
        }
    }
    let (actor, account) = (caller.did.to_string(), account.to_string());
    app.events.record(Event::AccountUnlinked { actor, account });
    Ok(response::json(StatusCode::OK, &json!({})))
}
