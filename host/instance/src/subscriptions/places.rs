//! The places of connections: limits by API client, by address or account, and in total.

use std::time::Duration;

use belvedere_protocol::atproto::Did;
use belvedere_web::fair_share::{Bounds, FairPool, Full, Permit, Tenant};

use crate::config;

/// The places of connections of this host.
#[derive(Debug)]
pub struct AllPlaces {
    by_client: FairPool,
    /// By account, or by address without one.
    by_sender: FairPool,
    /// Connections without an account: they leave a quarter of the places, in total and of each API client, to accounts.
    anonymous: FairPool,
}

/// Permits of a connection.
#[derive(Debug)]
pub struct Places(#[expect(dead_code, reason = "held while the connection is open")] [Option<Permit>; 3]);

impl AllPlaces {
    pub(super) fn new(config: &config::Subscriptions) -> Self {
        let pool = |name: &'static str, permits: u32, per_tenant: u32| {
            let bounds = Bounds {
                permits: permits.max(1) as usize,
                per_tenant: per_tenant.max(1) as usize,
                // A connection lasts: waiting for the end of another makes no sense.
                waiting: 0,
                waiting_per_tenant: 0,
                max_wait: Duration::ZERO,
            };
            FairPool::new(name, bounds)
        };
        let config::Subscriptions { sockets, sockets_per_client, sockets_per_address, .. } = *config;
        let three_quarters = |count: u32| count - count / 4;
        Self {
            by_client: pool("subscriptions", sockets, sockets_per_client),
            by_sender: pool("subscriptions_by_sender", sockets, sockets_per_address),
            anonymous: pool(
                "subscriptions_anonymous",
                three_quarters(sockets),
                three_quarters(sockets_per_client),
            ),
        }
    }

    /// Takes the places of a connection: of an account, or of an address without one.
    ///
    /// # Errors
    /// When too many connections are open: of the client, of the account or address, or in total.
    pub fn enter(&self, client: &Tenant, account: Option<&Did>, address: &Tenant) -> Result<Places, Full> {
        let sender = account.map_or_else(|| address.clone(), |did| Tenant::Account(did.as_str().into()));
        let by_sender = self.by_sender.try_enter(&sender)?;
        let anonymous = match account {
            None => Some(self.anonymous.try_enter(client)?),
            Some(_) => None,
        };
        Ok(Places([Some(by_sender), anonymous, Some(self.by_client.try_enter(client)?)]))
    }

    /// Open connections.
    pub(super) fn used(&self) -> usize {
        self.by_client.used()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_leave_places_to_accounts() {
        let config = config::Subscriptions {
            window_seconds: 60,
            window_megabytes: 1,
            sockets: 16,
            sockets_per_client: 8,
            sockets_per_address: 2,
        };
        let places = AllPlaces::new(&config);
        let address = |n: u8| Tenant::of_address([203, 0, 113, n].into());
        let client = |id: &str| Tenant::client(id);
        let mut taken = Vec::new();
        for n in 0..200_u8 {
            for id in ["a", "b", "c"] {
                taken.extend(places.enter(&client(id), None, &address(n)).ok());
            }
        }
        assert_eq!(taken.len(), 12, "three quarters");
        let did = |n: u8| Did::try_from(format!("did:web:{n}.example").as_str()).unwrap();
        let account = |id: &str, n: u8| places.enter(&client(id), Some(&did(n)), &address(1));
        let (first, second) = (account("a", 1).unwrap(), account("a", 1).unwrap());
        assert_eq!(account("a", 1).unwrap_err(), Full::Tenant, "a third of the same account");
        assert!(account("b", 2).is_ok(), "another client");
        drop((first, second, taken));
        assert_eq!(places.used(), 0);
        let by_one = (0..16_u8).filter_map(|n| places.enter(&client("a"), None, &address(n)).ok());
        assert_eq!(by_one.collect::<Vec<_>>().len(), 6, "three quarters of a client's");
    }
}
