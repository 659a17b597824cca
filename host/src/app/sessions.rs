//! Starts, stores and renews sessions with users' PDSs.

use std::sync::Arc;

use super::ground::Ground;
use super::open::StartError;
use super::outbound::Outbound;
use crate::crypto::Algorithm;
use crate::keys::instance;
use crate::oauth::{Authorizations, Discovery, DpopClient, OwnKey};
use crate::pds::Vault;
use crate::store::oauth_sessions;

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
    pub(super) async fn open(ground: &Ground, outbound: &Outbound) -> Result<Self, StartError> {
        let Ground { db, sealing, clock, random, tasks, .. } = ground;
        let dpop = DpopClient::new(outbound.net.clone(), clock.clone(), random.clone());
        let discovery = Discovery::new(outbound.net.clone(), outbound.resolver.clone());
        let own_key = instance::load(db, sealing, random, clock, "oauth-client", Algorithm::Es256).await?;
        let own_key = Arc::new(OwnKey::new(own_key));
        let vault = Vault::new(
            db.clone(),
            sealing.clone(),
            dpop.clone(),
            discovery.clone(),
            Arc::clone(&own_key),
            tasks.clone(),
        );
        let authorizations =
            Authorizations::new(db.clone(), sealing.clone(), dpop.clone(), discovery.clone(), own_key);
        oauth_sessions::release_all(db).await.map_err(|error| ground.store_error(error))?;
        Ok(Self { discovery, dpop, vault, authorizations })
    }
}
