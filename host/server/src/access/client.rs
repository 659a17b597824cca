//! The registry of API clients: the applications that may call XRPC.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use http::header::{HeaderName, HeaderValue, ORIGIN};

use super::rate_limit::Limit;
use belvedere_base::clock::Timestamp;
use belvedere_base::reloadable::Reloadable;
use belvedere_instance::config;
use belvedere_protocol::crypto::{ct_eq, sha256_hex};
use belvedere_storage::store::api_clients::{self, ApiClientRow};
use belvedere_storage::store::{Db, StoreError};
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::{Error, Request};

pub const X_CLIENT_KEY: HeaderName = HeaderName::from_static("x-client-key");
pub const X_CLIENT_SECRET: HeaderName = HeaderName::from_static("x-client-secret");
/// Query parameter for callers that can't set headers, like an `<img>`.
pub const CLIENT_KEY_PARAM: &str = "client_key";

/// Minimum time between two warnings about requests that do not match one client's registration.
const WARN_EVERY_SECONDS: i64 = 60;

/// An active API client, as request handling needs it.
#[derive(Debug)]
pub struct ApiClient {
    pub id: String,
    pub key: String,
    /// URL of the client's OAuth metadata: its `client_id` at authorization servers.
    pub client_id_url: String,
    /// Space-separated; the most that its sessions may have.
    pub scopes: String,
    /// Id of the top-level client that registered it.
    pub parent: Option<String>,
    /// The registered URIs to which users return after a login.
    pub redirect_uris: Vec<String>,
    /// Origins of its pages. Enforced for public clients only.
    pub allowed_origins: Vec<String>,
    /// SHA-256 in hex; `None` for a public client.
    secret_hash: Option<String>,
    /// Origins expected in its requests: that of `client_uri`, and the allowed ones.
    origins: Vec<String>,
    rate_limit_capacity: Option<f64>,
    rate_limit_refill_rate: Option<f64>,
    /// Unix seconds of the last warning about a mismatch.
    warned_at: AtomicI64,
}

/// The keys are shared, so that copying the map for one changed client is cheap.
type ClientMap = HashMap<Arc<str>, Arc<ApiClient>>;

#[derive(Clone, Debug, Default)]
struct ActiveClients {
    by_key: ClientMap,
    by_id: ClientMap,
}

impl ActiveClients {
    fn of(rows: Vec<ApiClientRow>) -> Self {
        let mut clients = Self::default();
        for row in rows {
            clients.add(row);
        }
        clients
    }

    fn add(&mut self, row: ApiClientRow) {
        if row.is_active {
            let client = Arc::new(ApiClient::from(row));
            self.by_key.insert(client.key.as_str().into(), Arc::clone(&client));
            self.by_id.insert(client.id.as_str().into(), client);
        }
    }

    /// Removes a client and its children.
    fn remove(&mut self, id: &str) {
        let is_gone = |client: &ApiClient| client.id == id || client.parent.as_deref() == Some(id);
        self.by_key.retain(|_, client| !is_gone(client));
        self.by_id.retain(|_, client| !is_gone(client));
    }
}

/// All active API clients, in memory. A write to one reloads that one and its children.
#[derive(Debug, Default)]
pub struct Clients(Reloadable<ActiveClients>);

impl Clients {
    /// Replaces all clients with those in the store.
    ///
    /// # Errors
    /// When the store can't be read; then the previous clients stay.
    pub async fn reload(&self, db: &Db) -> Result<(), StoreError> {
        self.0.reload(async |_| Ok(ActiveClients::of(api_clients::list(db, None).await?))).await
    }

    /// Replaces one client and its children with those in the store; a deleted client is removed.
    ///
    /// # Errors
    /// As [`Self::reload`].
    pub async fn reload_one(&self, db: &Db, id: &str) -> Result<(), StoreError> {
        let read = async |current: &ActiveClients| {
            let rows = api_clients::with_children(db, id).await?;
            let mut clients = current.clone();
            clients.remove(id);
            for row in rows {
                clients.add(row);
            }
            Ok(clients)
        };
        self.0.reload(read).await
    }

    #[cfg(test)]
    pub(super) fn with(rows: Vec<ApiClientRow>) -> Self {
        Self(Reloadable::new(ActiveClients::of(rows)))
    }

    /// The client that a request names: by header, else by query parameter. `None` when it names none.
    ///
    /// # Errors
    /// 401 for a key that is unknown or belongs to an inactive client.
    pub fn named_by(&self, request: &Request) -> Result<Option<Arc<ApiClient>>, Error> {
        let client = match request.headers().get(X_CLIENT_KEY) {
            Some(key) => self.get(key.to_str().unwrap_or_default()),
            None => match request.query(CLIENT_KEY_PARAM) {
                Some(key) => self.get(&key),
                None => return Ok(None),
            },
        };
        client.map(Some).ok_or_else(|| Error::unauthorized("Invalid client"))
    }

    pub fn get(&self, key: &str) -> Option<Arc<ApiClient>> {
        self.0.load().by_key.get(key).cloned()
    }

    /// The client with an id, if it is still active.
    pub fn by_id(&self, id: &str) -> Option<Arc<ApiClient>> {
        self.0.load().by_id.get(id).cloned()
    }
}

impl ApiClient {
    /// The tenant whose share its calls take: that of its parent for a child client.
    pub fn tenant(&self) -> Tenant {
        Tenant::client(self.parent.as_deref().unwrap_or(&self.id))
    }

    /// Size and refill rate of the client's bucket. Each falls back to the instance's default on its own.
    pub fn limit(&self, defaults: &config::RateLimit) -> Limit {
        Limit {
            capacity: self.rate_limit_capacity.unwrap_or(f64::from(defaults.capacity)),
            refill_rate: self.rate_limit_refill_rate.unwrap_or(defaults.refill_rate),
        }
    }

    /// Whether it is a public client: an application in a browser or on a phone, which can't keep a secret.
    pub fn is_public(&self) -> bool {
        self.secret_hash.is_none()
    }

    /// Whether this is its secret. A public client has none.
    pub fn has_secret(&self, secret: &HeaderValue) -> bool {
        let hash = sha256_hex(secret.as_bytes());
        self.secret_hash.as_ref().is_some_and(|known| ct_eq(hash.as_bytes(), known.as_bytes()))
    }

    /// Whether its pages have this origin: that of its own URL, or an allowed one.
    pub fn has_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known == origin)
    }

    /// Compares the request with the registration. A mismatch is logged, never rejected (service.md, XRPC client
    /// identification 3).
    pub fn warn_on_mismatch(&self, request: &Request, now: Timestamp) {
        let mismatch = match request.headers().get(ORIGIN) {
            Some(origin) if !self.origins.iter().any(|known| known == origin) => "unknown Origin",
            Some(_) => return,
            None => match (request.headers().get(X_CLIENT_SECRET), &self.secret_hash) {
                (Some(secret), Some(_)) if !self.has_secret(secret) => "wrong X-Client-Secret",
                (Some(_), None) => "X-Client-Secret sent by a public client",
                _ => return,
            },
        };
        let last = self.warned_at.load(Ordering::Relaxed);
        let due = now.as_seconds() >= last.saturating_add(WARN_EVERY_SECONDS);
        if due
            && self
                .warned_at
                .compare_exchange(last, now.as_seconds(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            tracing::warn!(
                client_id = self.id,
                request_id = request.id,
                "a request does not match the registration of its API client: {mismatch}"
            );
        }
    }
}

impl From<ApiClientRow> for ApiClient {
    fn from(row: ApiClientRow) -> Self {
        let own = url::Url::parse(&row.client_uri).map(|url| url.origin().ascii_serialization());
        Self {
            id: row.id,
            key: row.client_key,
            client_id_url: row.client_id_url,
            scopes: row.scopes,
            parent: row.parent_client_id,
            secret_hash: row.client_secret_hash,
            origins: own.into_iter().chain(row.allowed_origins.iter().cloned()).collect(),
            allowed_origins: row.allowed_origins,
            redirect_uris: row.redirect_uris,
            rate_limit_capacity: row.rate_limit_capacity.map(|c| c as f64),
            rate_limit_refill_rate: row.rate_limit_refill_rate,
            warned_at: AtomicI64::new(i64::MIN),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use bytes::Bytes;

    use super::*;
    use belvedere_storage::store::api_clients::{ApiClientPatch, Caps, Created};
    use belvedere_storage::store::revocations::Window;
    use belvedere_storage::store::testing;
    use belvedere_web::http::request::NO_PEER;

    pub(in crate::access) fn row(key: &str, is_active: bool) -> ApiClientRow {
        ApiClientRow {
            id: format!("id of {key}"),
            client_key: key.to_owned(),
            client_secret_hash: Some(sha256_hex(b"bvs_1")),
            name: String::new(),
            client_id_url: String::new(),
            client_uri: "https://app.example/home".to_owned(),
            redirect_uris: Vec::new(),
            client_type: "confidential".to_owned(),
            scopes: "atproto".to_owned(),
            allowed_origins: vec!["https://other.example".to_owned()],
            rate_limit_capacity: Some(5),
            rate_limit_refill_rate: None,
            is_active,
            created_by: String::new(),
            parent_client_id: None,
            owner_did: None,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            last_used_at: None,
        }
    }

    fn request(uri: &str, headers: &[(&str, &str)]) -> Request {
        let mut builder = http::Request::get(uri);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        let (head, ()) = builder.body(()).unwrap().into_parts();
        Request { head, body: Bytes::new(), params: Vec::new(), id: String::new(), peer: NO_PEER }
    }

    #[tokio::test]
    async fn a_change_reloads_the_client_and_its_children() {
        for db in testing::both().await {
            let new = |n: u32, parent: Option<&str>| ApiClientRow {
                id: format!("c{n}"),
                client_id_url: format!("https://app{n}.example/client.json"),
                parent_client_id: parent.map(str::to_owned),
                ..row(&format!("bvc_{n}"), true)
            };
            let caps = Caps { all: 9, of_parent: 9, of_owner: 9 };
            let create = async |row| api_clients::create(&db, &row, &caps).await.unwrap();
            for row in [new(1, None), new(2, Some("c1")), new(3, Some("c1")), new(4, None)] {
                assert_eq!(create(row).await, Created::Done);
            }
            let clients = Clients::default();
            clients.reload(&db).await.unwrap();
            let scopes = |id: &str| clients.by_id(id).map(|client| client.scopes.clone());
            for id in ["c2", "c4"] {
                let patch =
                    ApiClientPatch { scopes: Some("atproto new".into()), ..ApiClientPatch::default() };
                api_clients::update(&db, id, &patch, Timestamp(9)).await.unwrap();
            }
            clients.reload_one(&db, "c2").await.unwrap();
            assert_eq!(scopes("c2").as_deref(), Some("atproto new"));
            assert_eq!(scopes("c4").as_deref(), Some("atproto"), "nothing else was read");
            // Deleting a parent deletes its children.
            let off = ApiClientPatch { is_active: Some(false), ..ApiClientPatch::default() };
            api_clients::update(&db, "c1", &off, Timestamp(9)).await.unwrap();
            clients.reload_one(&db, "c1").await.unwrap();
            let there =
                |id: &str| clients.by_id(id).is_some() || clients.get(&id.replace('c', "bvc_")).is_some();
            assert_eq!(["c1", "c2", "c3", "c4"].map(there), [false, false, false, true]);
            let window = Window { due_at: Timestamp(1), give_up_at: Timestamp(2) };
            api_clients::delete(&db, "c4", window).await.unwrap();
            clients.reload_one(&db, "c4").await.unwrap();
            assert!(!there("c4"));
            create(new(5, None)).await;
            clients.reload_one(&db, "c5").await.unwrap();
            assert!(there("c5"));
        }
    }

    #[test]
    fn the_header_takes_precedence_over_the_parameter() {
        let clients = Clients::with(vec![row("bvc_a", true), row("bvc_b", true), row("bvc_off", false)]);
        let id = |uri: &str, headers: &[(&str, &str)]| {
            clients.named_by(&request(uri, headers)).map(|c| c.map(|c| c.key.clone()))
        };
        assert_eq!(id("/x", &[]).unwrap(), None);
        assert_eq!(id("/x?client_key=bvc_a", &[]).unwrap().as_deref(), Some("bvc_a"));
        let both = id("/x?client_key=bvc_a", &[("x-client-key", "bvc_b")]);
        assert_eq!(both.unwrap().as_deref(), Some("bvc_b"));
        for key in ["bvc_off", "bvc_none", ""] {
            let error = id("/x", &[("x-client-key", key)]).unwrap_err();
            assert_eq!((error.status.as_u16(), &*error.error), (401, "Invalid client"), "{key}");
        }
    }

    #[test]
    fn capacity_and_refill_rate_fall_back_separately() {
        let defaults = config::RateLimit { capacity: 100, refill_rate: 2.0 };
        let client = ApiClient::from(row("bvc_a", true));
        assert_eq!(client.limit(&defaults), Limit { capacity: 5.0, refill_rate: 2.0 });
    }

    #[test]
    fn a_mismatch_is_logged_once_a_minute() {
        let client = ApiClient::from(row("bvc_a", true));
        let warned = || client.warned_at.load(Ordering::Relaxed);
        for fits in [
            request("/x", &[]),
            request("/x", &[("origin", "https://app.example")]),
            request("/x", &[("origin", "https://other.example")]),
            request("/x", &[("x-client-secret", "bvs_1")]),
        ] {
            client.warn_on_mismatch(&fits, Timestamp(5_000_000));
            assert_eq!(warned(), i64::MIN);
        }
        client.warn_on_mismatch(&request("/x", &[("origin", "https://evil.example")]), Timestamp(5_000_000));
        assert_eq!(warned(), 5);
        client.warn_on_mismatch(&request("/x", &[("x-client-secret", "bvs_2")]), Timestamp(64_000_000));
        assert_eq!(warned(), 5);
        client.warn_on_mismatch(&request("/x", &[("x-client-secret", "bvs_2")]), Timestamp(65_000_000));
        assert_eq!(warned(), 65);
    }
}
