//! Who has a session with their PDS.

use std::collections::HashMap;
use std::sync::Arc;

use http::header::HeaderValue;

use crate::atproto::Did;
use crate::config::Secret;
use crate::store::StoreError;

/// The right to write to one repo.
#[derive(Clone, Debug)]
pub struct Session {
    pub did: Did,
    /// Origin of the PDS, without a trailing slash.
    pub endpoint: String,
    pub credential: Credential,
}

/// What proves the right. `Debug` does not show it.
#[derive(Clone, Debug)]
pub enum Credential {
    /// The access token of `com.atproto.server.createSession`.
    Bearer(Secret<String>),
}

impl Credential {
    /// The value of the `Authorization` header; `None` when the credential can't be one.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        let Self::Bearer(token) = self;
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// The sessions that there are. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Sessions(Arc<HashMap<Did, Arc<Session>>>);

impl Sessions {
    /// Nobody has one.
    pub fn none() -> Self {
        Self::default()
    }

    /// These and no others.
    pub fn fixed(sessions: impl IntoIterator<Item = Session>) -> Self {
        Self(Arc::new(sessions.into_iter().map(|session| (session.did.clone(), Arc::new(session))).collect()))
    }

    /// The session that an API client (by id) may use for an account.
    ///
    /// # Errors
    /// When the sessions can't be read.
    #[expect(clippy::unused_async, reason = "looking one up is a read of the database for all callers")]
    pub async fn of(&self, did: &Did, _client: Option<&str>) -> Result<Option<Arc<Session>>, StoreError> {
        Ok(self.0.get(did).cloned())
    }
}
