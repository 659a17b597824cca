//! Registers API clients, for admins and for third parties.

pub(in crate::api) mod check;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::{ClientCredentials, secrets};
use crate::app::App;
use crate::app::Topic;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::api_clients::{self, ApiClientRow, Caps, Created};
use belvedere_web::http::Error;

/// Maximum numbers of API clients. They are kept in memory, each with a bucket.
const CAPS: Caps = Caps {
    // About twenty megabytes.
    all: 10_000,
    // A tenth: an application whose users register clients can't use up the limit for all.
    of_parent: 1_000,
    // Far more than one user needs.
    of_owner: 100,
};

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientType {
    #[default]
    Confidential,
    Public,
}

impl ClientType {
    pub(in crate::api) fn as_str(self) -> &'static str {
        match self {
            Self::Confidential => "confidential",
            Self::Public => "public",
        }
    }
}

/// The fields of a client to register.
#[derive(Debug)]
pub(in crate::api) struct NewClient {
    pub name: String,
    pub client_id_url: String,
    pub client_uri: String,
    pub redirect_uris: Vec<String>,
    pub scopes: Option<String>,
    pub client_type: ClientType,
    pub allowed_origins: Vec<String>,
    pub rate_limit_capacity: Option<i64>,
    pub rate_limit_refill_rate: Option<f64>,
    /// DID of the user who registers it.
    pub created_by: String,
    /// For a third party's client: the id of its parent client, and the DID of its owner.
    pub parent: Option<(String, String)>,
    /// Absent: it gets new ones.
    pub credentials: Option<CarriedCredentials>,
}

/// The credentials that an application has from another server, so that it goes on without a change.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CarriedCredentials {
    /// 16 to 128 letters, digits, `_` and `-`.
    client_key: String,
    /// The SHA-256 of its secret, as 64 hex digits; only of a confidential client.
    client_secret_hash: Option<String>,
}

impl CarriedCredentials {
    fn check(self, client_type: ClientType) -> Result<ClientCredentials, Error> {
        let Self { client_key, client_secret_hash } = self;
        let is_key = (16..=128).contains(&client_key.len())
            && client_key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        if !is_key {
            return Err(Error::bad_request("client_key must be 16 to 128 letters, digits, _ and -"));
        }
        match (client_type, &client_secret_hash) {
            (ClientType::Confidential, Some(hash)) if secrets::is_hash(hash) => {}
            (ClientType::Public, None) => {}
            (ClientType::Confidential, _) => {
                return Err(Error::bad_request(
                    "client_secret_hash must be the SHA-256 of the secret, as 64 lowercase hex digits",
                ));
            }
            (ClientType::Public, Some(_)) => {
                return Err(Error::bad_request(
                    "a public client has no secret: leave client_secret_hash out",
                ));
            }
        }
        Ok(ClientCredentials::carried(client_key, client_secret_hash))
    }
}

impl NewClient {
    /// Stores the client, which is active when this returns. Its credentials are shown once.
    ///
    /// # Errors
    /// 400 for an invalid field and when there are too many clients, 409 when another client or the server itself has
    /// the metadata URL.
    pub(in crate::api) async fn register(
        self,
        app: &App,
    ) -> Result<(ApiClientRow, ClientCredentials), Error> {
        self.check()?;
        check::is_not_own(&self.client_id_url, &app.access.origins.all())?;
        let scopes = self.scopes.as_deref().map(check::scopes).transpose()?;
        let conflict = match &self.credentials {
            None => "client_id_url already registered",
            Some(_) => "client_id_url or client_key already registered",
        };
        let credentials = match (self.credentials, self.client_type) {
            (Some(carried), client_type) => carried.check(client_type)?,
            (None, ClientType::Confidential) => ClientCredentials::confidential(&app.random),
            (None, ClientType::Public) => ClientCredentials::public(&app.random),
        };
        let now = app.clock.now();
        let (parent_client_id, owner_did) = self.parent.unzip();
        let client = ApiClientRow {
            id: app.random.uuid(),
            client_key: credentials.key().to_owned(),
            client_secret_hash: credentials.secret_hash(),
            name: self.name,
            client_id_url: self.client_id_url,
            client_uri: self.client_uri,
            redirect_uris: self.redirect_uris,
            scopes: scopes.unwrap_or_else(|| "atproto".to_owned()),
            client_type: self.client_type.as_str().to_owned(),
            allowed_origins: self.allowed_origins,
            rate_limit_capacity: self.rate_limit_capacity,
            rate_limit_refill_rate: self.rate_limit_refill_rate,
            created_by: self.created_by,
            parent_client_id,
            owner_did,
            is_active: true,
            created_at: now,
            updated_at: now,
            last_used_at: None,
        };
        let created = api_clients::create(&app.db, &client, &CAPS).await.map_err(|error| match error {
            StoreError::Conflict(_) => Error::conflict(conflict),
            other => Error::from(other),
        })?;
        let full = |whose: &str, cap: i64| {
            Err(Error::bad_request(format!("{whose} {cap} API clients already: delete one first")))
        };
        match created {
            Created::Done => {}
            Created::OwnerFull => return full("you have", CAPS.of_owner),
            Created::ParentFull => return full("the parent client has", CAPS.of_parent),
            Created::Full => return full("the instance has", CAPS.all),
        }
        app.changed(Topic::ApiClient(client.id.clone())).await?;
        Ok((client, credentials))
    }

    fn check(&self) -> Result<(), Error> {
        check::text("name", &self.name)?;
        check::web_url("client_id_url", &self.client_id_url)?;
        check::web_url("client_uri", &self.client_uri)?;
        check::redirect_uris(&self.redirect_uris)?;
        check::origins(&self.allowed_origins)?;
        self.rate_limit_capacity.map_or(Ok(()), check::capacity)?;
        self.rate_limit_refill_rate.map_or(Ok(()), check::refill_rate)
    }
}
