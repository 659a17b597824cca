//! Ends sessions whose account has moved: a session belongs to the PDS at which it was made, and the account's DID
//! document names its PDS. A document without a PDS, or none at all, refuses calls and ends nothing
//! (docs/adr/0091).

use futures_util::{StreamExt as _, TryStreamExt as _};

use crate::oauth::DiscoveryError;
use crate::pds::RenewError;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::oauth_sessions::{self, AccountSession};

use super::Vault;

/// Maximum age of the document that a call with a session relies on, in seconds. An account that writes causes at most
/// one look-up in this time. A move that no identity event announced goes unnoticed no longer while documents can be
/// fetched; otherwise as [`Resolver::recent_pds`](crate::identity::Resolver::recent_pds) says.
const MAX_DOCUMENT_SECONDS: i64 = 60;

/// Sessions that are checked at the same time after identity events, so that one slow host of a did:web does not delay
/// the others.
const MAX_CHECKS: usize = 8;

impl Vault {
    /// Checks that an account is still at the PDS at which its session was made. Ends the session when it is not.
    ///
    /// # Errors
    /// [`RenewError::Moved`] when the session was ended; [`RenewError::Discovery`] when the account's PDS can't be
    /// determined.
    pub(in crate::pds) async fn check_pds(&self, id: &str, did: &Did, pds: &str) -> Result<(), RenewError> {
        let resolver = self.0.discovery.resolver();
        let known = resolver.recent_pds(did, MAX_DOCUMENT_SECONDS).await.map_err(DiscoveryError::from)?;
        // Not looked up again: it ends no session, and every call would cause a fetch.
        let known = known.ok_or(DiscoveryError::NoPds)?;
        if *known == *pds {
            return Ok(());
        }
        // The cached document may be older than the session.
        let document = resolver.no_older_than(did, 0).await.map_err(DiscoveryError::from)?;
        match document.pds() {
            None => Err(DiscoveryError::NoPds.into()),
            Some(named) if named == pds => Ok(()),
            Some(named) => {
                if self.end_at(id, pds, &RenewError::Moved.to_string()).await? {
                    tracing::info!(session = id, %did, from = pds, to = named, "an account has moved: its session ended");
                }
                Err(RenewError::Moved)
            }
        }
    }

    /// Checks all sessions of accounts whose identity has changed.
    ///
    /// # Errors
    /// When the store can't be used. Sessions that were not checked are checked before their next call.
    pub async fn check_accounts(&self, dids: &[Did]) -> Result<(), StoreError> {
        let sessions = oauth_sessions::of_accounts(self.db(), dids).await?;
        let checks = futures_util::stream::iter(sessions).map(|session| Ok(self.check_session(session)));
        checks.try_buffer_unordered(MAX_CHECKS).try_collect().await
    }

    async fn check_session(&self, session: AccountSession) -> Result<(), StoreError> {
        let AccountSession { id, did, pds } = session;
        let did = Did::try_from(did.as_str())
            .map_err(|_| StoreError::Corrupt(format!("oauth_sessions {id}: its DID is invalid")))?;
        match self.check_pds(&id, &did, &pds).await {
            Ok(()) | Err(RenewError::Moved) => {}
            Err(RenewError::Store(error)) => return Err(error),
            Err(error) => tracing::debug!(session = id, %error, "a session could not be checked now"),
        }
        Ok(())
    }
}
