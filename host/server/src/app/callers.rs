//! Builds [`Access`], which authenticates callers and checks their permissions.

use std::sync::Arc;

use super::ground::Ground;
use super::open::StartError;
use super::outbound::Outbound;
use super::sessions::PdsSessions;
use crate::access::{
    Access, AdminKeys, Buckets, ClientKeys, Clients, Costs, DpopProofs, Nonces, Origins, ServiceTokens,
    UsedProofs, Users, WebSessions,
};
use belvedere_instance::lexicons::Registry;
use belvedere_instance::service_identity::ServiceIdentity;
use belvedere_storage::store::domains;

pub(super) async fn open(
    ground: &Ground,
    outbound: &Outbound,
    sessions: &PdsSessions,
    registry: &Arc<Registry>,
    service_identity: &ServiceIdentity,
    costs: Costs,
) -> Result<Access, StartError> {
    let Ground { config, identity, secrets, clock, random, db, events, tasks, lifecycle, .. } = ground;
    let clients = Clients::default();
    clients.reload(db).await.map_err(|error| ground.store_error(error))?;
    domains::set_origin(db, &random.uuid(), &identity.origin, clock.now())
        .await
        .map_err(|error| ground.store_error(error))?;
    let origins = Origins::new(&identity.origin);
    let is_secure = identity.origin.starts_with("https://");
    let used = UsedProofs::start(db.clone(), clock.clone(), tasks, lifecycle.drain.clone());
    let nonces = config.auth.dpop_nonces.then(|| Nonces::new(secrets.session.reveal()));
    Ok(Access {
        db: db.clone(),
        clock: clock.clone(),
        random: random.clone(),
        events: events.clone(),
        registry: Arc::clone(registry),
        resolver: outbound.resolver.clone(),
        vault: sessions.vault.clone(),
        tasks: tasks.clone(),
        origin: identity.origin.clone(),
        proxies: config.server.trusted_proxies.clone(),
        rate_limit: config.rate_limit,
        clients,
        admin_keys: AdminKeys::default(),
        users: Users::default(),
        web_sessions: WebSessions::new(db.clone(), secrets.session.reveal(), origins.clone(), is_secure),
        proofs: DpopProofs::new(db.clone(), clock.clone(), origins.clone(), used, nonces),
        origins,
        tokens: ServiceTokens::new(service_identity.clone(), clock.clone()),
        buckets: Buckets::default(),
        sender_buckets: Buckets::default(),
        costs,
        client_keys: ClientKeys::new(outbound.net.clone()),
    })
}
