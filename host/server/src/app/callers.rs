//! Builds [`Access`], which authenticates callers and checks their permissions.

use std::sync::Arc;

use super::open::StartError;
use super::sessions::PdsSessions;
use super::startup::Startup;
use crate::access::{
    Access, AdminKeys, Buckets, ClientKeySets, ClientKeys, ClientUsage, Clients, Costs, DpopProofs, Nonces,
    Origins, ServiceTokens, UsedProofs, Users, VerifiedCredentials, WebSessions,
};
use belvedere_instance::core::Core;
use belvedere_instance::service_identity::ServiceIdentity;
use belvedere_instance::spaces::Spaces;
use belvedere_storage::store::domains;

pub(super) async fn open(
    startup: &Startup,
    sessions: &PdsSessions,
    (service_identity, spaces): (&ServiceIdentity, &Spaces),
    costs: Costs,
    sender_buckets: Arc<Buckets>,
) -> Result<Access, StartError> {
    let Startup { core, config, identity, secrets, .. } = startup;
    let Core { db, clock, random, .. } = core;
    let clients = Clients::default();
    clients.reload(db).await.map_err(|error| startup.store_error(error))?;
    domains::set_origin(db, &random.uuid(), &identity.origin, clock.now())
        .await
        .map_err(|error| startup.store_error(error))?;
    let origins = Origins::new(&identity.origin);
    let is_secure = identity.origin.starts_with("https://");
    let used = UsedProofs::start(db.clone(), clock.clone(), &core.tasks, core.drain.clone());
    let nonces = config.auth.dpop_nonces.then(|| Nonces::new(secrets.session.reveal()));
    Ok(Access {
        core: core.clone(),
        vault: sessions.vault.clone(),
        origin: identity.origin.clone(),
        proxies: config.server.trusted_proxies.clone(),
        rate_limit: config.rate_limit,
        clients,
        admin_keys: AdminKeys::default(),
        users: Users::default(),
        web_sessions: WebSessions::new(db.clone(), secrets.session.reveal(), origins.clone(), is_secure),
        proofs: DpopProofs::new(db.clone(), clock.clone(), origins.clone(), used.clone(), nonces),
        used,
        origins,
        tokens: ServiceTokens::new(service_identity.clone(), clock.clone()),
        spaces: spaces.clone(),
        buckets: Buckets::default(),
        client_usage: ClientUsage::default(),
        sender_buckets,
        costs,
        client_keys: ClientKeys::new(core.net.clone()),
        client_key_sets: ClientKeySets::new(core.net.clone(), core.clock.clone()),
        verified_credentials: VerifiedCredentials::default(),
    })
}
