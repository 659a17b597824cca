//! Starts, stores and renews sessions with users' PDSs.

use super::open::StartError;
use super::startup::Startup;
use belvedere_instance::core::Core;
use belvedere_instance::keys::instance;
use belvedere_instance::oauth::{Authorizations, Discovery, DpopClient, OwnKeys};
use belvedere_instance::pds::Vault;
use belvedere_protocol::crypto::Algorithm;
use belvedere_storage::store::oauth_sessions;

#[derive(Debug)]
pub struct PdsSessions {
    /// Finds an account's authorization server.
    pub discovery: Discovery,
    /// Sends requests with this server's DPoP proofs.
    pub dpop: DpopClient,
    /// The stored sessions.
    pub vault: Vault,
    /// Pending logins at the instance itself.
    pub authorizations: Authorizations,
}

impl PdsSessions {
    pub(super) async fn open(startup: &Startup) -> Result<Self, StartError> {
        let Core { db, sealing, clock, random, tasks, .. } = &startup.core;
        let dpop = DpopClient::new(startup.core.net.clone(), clock.clone(), random.clone());
        let discovery = Discovery::new(startup.core.net.clone(), startup.core.resolver.clone());
        let own_keys = own_keys(startup).await?;
        let vault = Vault::new(
            db.clone(),
            sealing.clone(),
            dpop.clone(),
            discovery.clone(),
            own_keys.clone(),
            tasks.clone(),
        );
        let authorizations =
            Authorizations::new(db.clone(), sealing.clone(), dpop.clone(), discovery.clone(), own_keys);
        oauth_sessions::release_all(db).await.map_err(|error| startup.store_error(error))?;
        Ok(Self { discovery, dpop, vault, authorizations })
    }
}

/// The instance's keys for authorization servers. The first is the one that versions before key rotation use, which may
/// run on other hosts.
async fn own_keys(startup: &Startup) -> Result<OwnKeys, StartError> {
    let Core { db, sealing, clock, random, .. } = &startup.core;
    let keys = OwnKeys::new(db.clone(), sealing.clone(), random.clone(), clock.clone());
    let failed = |error| startup.store_error(error);
    if keys.published().await.map_err(failed)?.is_empty() {
        let first = instance::load(db, sealing, random, clock, "oauth-client", Algorithm::Es256).await?;
        keys.adopt(&first).await.map_err(failed)?;
    }
    // Fails here and not at the first login when the key was sealed under another TOKEN_ENCRYPTION_KEY.
    keys.signing().await.map_err(failed)?;
    Ok(keys)
}
