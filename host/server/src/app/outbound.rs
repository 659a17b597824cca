//! The client and the caches for calls to other servers.

use super::ground::Ground;
use super::open::{StartError, net_client, resolver};
use belvedere_instance::identity::Resolver;
use belvedere_instance::lexicons::{Authorities, forwarding};
use belvedere_web::fair_share::FairPool;
use belvedere_web::net;

#[derive(Debug)]
pub struct Outbound {
    /// The guarded client: every request to another server goes through it.
    pub net: net::Client,
    /// Resolves DIDs and handles to accounts and their PDSs.
    pub resolver: Resolver,
    /// Resolves NSIDs without a lexicon here to the server of their authority.
    pub authorities: Authorities,
    /// Places for forwarded calls.
    pub forwarding: FairPool,
}

impl Outbound {
    pub(super) fn open(ground: &Ground) -> Result<Self, StartError> {
        let net = net_client(&ground.config, &ground.identity, ground.port)?;
        let resolver = resolver(&ground.config, net.clone(), ground.clock.clone());
        let authorities = Authorities::new(net.clone(), resolver.clone());
        Ok(Self { net, resolver, authorities, forwarding: forwarding::pool() })
    }
}
