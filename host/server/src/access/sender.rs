//! Charges work that is done before a caller has authenticated. It is paid from buckets of the caller's network address
//! and of the target that the request names, never from those of the API client that it names: a name is no proof.

use std::net::IpAddr;
use std::sync::Arc;

use super::Access;
use super::public_limit::PublicLimit;
use super::rate_limit::{Buckets, Exhausted, Limit};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_protocol::atproto::{Did, Handle};
use belvedere_scripting::scripts::HandleBudget;
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::{Error, Request};

/// Failed proofs of one address: tokens, signatures, secrets. Each costs a query and a signature verification. An
/// application's own server sends the proofs of all its users, some of which have expired, but never twenty a second.
const FAILURE_LIMIT: Limit = Limit { capacity: 300.0, refill_rate: 20.0 };

/// Denied service tokens of one address that the event log records: enough to see what a misconfigured client does,
/// without it filling the log.
const DENIAL_LIMIT: Limit = Limit { capacity: 20.0, refill_rate: 0.1 };

/// Look-ups of issuers of service tokens that one address may cause, and of handles that one tenant may. A PDS sends the
/// first tokens of all its users; each DID document is then cached for a quarter of an hour.
const LOOK_UP_LIMIT: Limit = Limit { capacity: 100.0, refill_rate: 10.0 };

/// Look-ups that go to one domain, caused by all addresses and tenants together: several times what one of them may
/// cause, so that it can't use up what the domain's users need.
const LOOK_UP_LIMIT_PER_DOMAIN: Limit = Limit { capacity: 500.0, refill_rate: 50.0 };

/// The sender of a request: its network, or the tenant of an admitted call, and the buckets that it pays from.
#[derive(Debug)]
pub struct Sender<'a> {
    buckets: &'a Buckets,
    tenant: Tenant,
    now: Timestamp,
}

impl<'a> Sender<'a> {
    pub fn of(access: &'a Access, request: &Request) -> Self {
        Self::new(&access.sender_buckets, access.client_address(request), access.core.clock.now())
    }

    pub fn new(buckets: &'a Buckets, address: IpAddr, now: Timestamp) -> Self {
        Self { buckets, tenant: Tenant::of_address(address), now }
    }

    /// The tenant that an admitted call is charged to.
    pub fn of_tenant(access: &'a Access, tenant: &Tenant) -> Self {
        Self { buckets: &access.sender_buckets, tenant: tenant.clone(), now: access.core.clock.now() }
    }

    /// The network that the address belongs to, or the tenant of the call.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Charges a call of a public route.
    ///
    /// # Errors
    /// 429 when the bucket of the address, or that of the target that the request names, is empty.
    pub fn pay(&self, price: &PublicLimit, request: &Request) -> Result<(), Error> {
        if let Some(limit) = price.by_address {
            self.take(price.name, &self.tenant, limit)?;
        }
        if let Some((target, limit)) = price.by_target
            && let Some(target) = target(request)
        {
            self.take(price.name, &target, limit)?;
        }
        Ok(())
    }

    /// Charges an unauthenticated call that names a client.
    ///
    /// # Errors
    /// When the bucket of the address is empty, or the one that all callers share that name this client.
    pub fn pay_for_client(&self, price: &PublicLimit, client: &Tenant) -> Result<(), Exhausted> {
        if let Some(limit) = price.by_address {
            self.take(price.name, &self.tenant, limit)?;
        }
        if let Some((_, limit)) = price.by_target {
            self.take(price.name, client, limit)?;
        }
        Ok(())
    }

    /// Whether a proof of this sender is checked at all.
    ///
    /// # Errors
    /// When too many have failed recently.
    pub fn check_failures(&self) -> Result<(), Exhausted> {
        self.buckets.check(&key("failure", &self.tenant), FAILURE_LIMIT, 1, self.now)
    }

    /// Charges a failed proof.
    pub fn charge_failure(&self) {
        // When the bucket is empty, the next proof is not checked.
        let _ = self.take("failure", &self.tenant, FAILURE_LIMIT);
    }

    /// Charges a failed proof if `outcome` is one.
    pub fn charge_if_failure<T, E>(
        &self,
        outcome: Result<T, E>,
        is_failure: impl FnOnce(&E) -> bool,
    ) -> Result<T, E> {
        outcome.inspect_err(|error| {
            if is_failure(error) {
                self.charge_failure();
            }
        })
    }

    /// Whether a denial of this sender is recorded in the event log.
    pub fn may_log_denial(&self) -> bool {
        self.take("denial", &self.tenant, DENIAL_LIMIT).is_ok()
    }

    /// Charges a look-up of an issuer whose DID document is not cached.
    ///
    /// # Errors
    /// When the address has caused too many, or too many have gone to the issuer's domain.
    pub fn pay_look_up(&self, issuer: &Did) -> Result<(), Exhausted> {
        let is_web = issuer.method() == "web";
        self.pay_look_up_at(is_web.then(|| issuer.identifier().split('%').next().unwrap_or_default()))
    }

    /// Charges a look-up of a handle whose account is not cached.
    ///
    /// # Errors
    /// When the tenant has caused too many, or too many have gone to the handle's domain.
    pub fn pay_handle_look_up(&self, handle: &Handle) -> Result<(), Exhausted> {
        self.pay_look_up_at(Some(handle.as_str()))
    }

    /// Charges a look-up. `host`: the one that it goes to, if the caller chose it.
    ///
    /// # Errors
    /// When the tenant has caused too many, or too many have gone to the host.
    pub(super) fn pay_look_up_at(&self, host: Option<&str>) -> Result<(), Exhausted> {
        self.take("look-up", &self.tenant, LOOK_UP_LIMIT)?;
        host.map_or(Ok(()), |host| self.take("look-up", &Tenant::of_host(host), LOOK_UP_LIMIT_PER_DOMAIN))
    }

    fn take(&self, kind: &str, tenant: &Tenant, limit: Limit) -> Result<(), Exhausted> {
        self.buckets.take(&key(kind, tenant), limit, 1, self.now).map(drop)
    }
}

/// Charges the look-ups of handles that scripts cause, like those of other calls of their tenants.
#[derive(Debug)]
pub struct ScriptLookUps {
    pub buckets: Arc<Buckets>,
    pub clock: Clock,
}

impl HandleBudget for ScriptLookUps {
    fn pay(&self, tenant: &Tenant, handle: &Handle) -> bool {
        let now = self.clock.now();
        Sender { buckets: &self.buckets, tenant: tenant.clone(), now }.pay_handle_look_up(handle).is_ok()
    }
}

/// Unambiguous, because `kind` contains no space.
fn key(kind: &str, tenant: &Tenant) -> String {
    format!("{kind} {tenant}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [203, 0, 113, last].into()
    }

    #[test]
    fn failures_block_only_their_sender() {
        let buckets = Buckets::default();
        let sender = |last| Sender::new(&buckets, address(last), Timestamp(0));
        for _ in 0..300 {
            assert!(sender(1).check_failures().is_ok());
            sender(1).charge_failure();
        }
        assert!(sender(1).check_failures().is_err() && sender(2).check_failures().is_ok());
        let later = Sender::new(&buckets, address(1), Timestamp(1_000_000));
        assert!(later.check_failures().is_ok());
    }

    #[test]
    fn look_ups_are_limited_by_address_and_by_domain() {
        let buckets = Buckets::default();
        let did = |text: String| Did::try_from(text.as_str()).unwrap();
        let tries = |last: u8, domain: &str, of: u32| {
            let sender = Sender::new(&buckets, address(last), Timestamp(0));
            (0..of).filter(|n| sender.pay_look_up(&did(format!("did:web:{n}.{domain}"))).is_ok()).count()
        };
        assert_eq!(tries(1, "evil.example", 200), 100);
        for last in 2..6 {
            assert_eq!(tries(last, "evil.example", 100), 100);
        }
        assert_eq!(tries(6, "evil.example", 10), 0, "500 have gone to the domain");
        assert_eq!(tries(7, "good.example", 10), 10);
        let sender = Sender::new(&buckets, address(8), Timestamp(0));
        assert!(sender.pay_look_up(&did("did:plc:abc".to_owned())).is_ok());
        let handle = |text: &str| Handle::try_from(text).unwrap();
        assert!(sender.pay_handle_look_up(&handle("a.evil.example")).is_err(), "the same bucket");
        assert!(sender.pay_handle_look_up(&handle("a.good.example")).is_ok());
    }
}
