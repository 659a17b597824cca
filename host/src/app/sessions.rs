//! Sessions with users' PDSs: how they begin, where they are kept, and the keys that they take.

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
    /// Accounts to their authorization servers.
    pub discovery: Discovery,
    /// Requests with DPoP proofs of ours.
    pub dpop: DpopClient,
    /// The stored sessions.
    pub vault: Vault,
    /// Logins at the instance itself that are under way.
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
