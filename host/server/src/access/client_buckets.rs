//! Charges calls to the token buckets of API clients.

use std::borrow::Cow;
use std::sync::Arc;

use super::rate_limit::{Buckets, Budget, Exhausted};
use super::{ApiClient, Clients};
use belvedere_base::clock::Timestamp;
use belvedere_instance::config;

/// The buckets of API clients for one kind of calls.
#[derive(Clone, Copy, Debug)]
pub struct ClientBuckets<'a> {
    pub buckets: &'a Buckets,
    pub defaults: &'a config::RateLimit,
    pub now: Timestamp,
    /// Prefix of the bucket's key: each kind of calls has buckets of its own.
    pub kind: &'static str,
}

impl ClientBuckets<'_> {
    fn take(&self, client: &ApiClient, cost: u32) -> Result<Budget, Exhausted> {
        self.buckets.take(&self.key(&client.key), client.limit(self.defaults), cost, self.now)
    }

    fn check(&self, client: &ApiClient, cost: u32) -> Result<(), Exhausted> {
        self.buckets.check(&self.key(&client.key), client.limit(self.defaults), cost, self.now)
    }

    fn refund(&self, client: &ApiClient, cost: u32) {
        self.buckets.refund(&self.key(&client.key), client.limit(self.defaults), cost, self.now);
    }

    fn key<'k>(&self, key: &'k str) -> Cow<'k, str> {
        if self.kind.is_empty() { key.into() } else { format!("{}{key}", self.kind).into() }
    }
}

impl Clients {
    /// Charges a call to the client's bucket, and for a child client to its parent's too: however many children a
    /// client has, together they spend no more than it may. Returns the budget of the emptier bucket.
    ///
    /// # Errors
    /// When either holds too little; nothing is taken then.
    pub fn pay(
        &self,
        buckets: &ClientBuckets<'_>,
        client: &ApiClient,
        cost: u32,
    ) -> Result<Budget, Exhausted> {
        let own = buckets.take(client, cost)?;
        let Some(parent) = self.parent_of(client) else { return Ok(own) };
        match buckets.take(&parent, cost) {
            Ok(shared) => Ok(own.tighter(shared)),
            Err(exhausted) => {
                buckets.refund(client, cost);
                Err(exhausted)
            }
        }
    }

    /// Whether [`Self::pay`] would succeed now; takes nothing.
    ///
    /// # Errors
    /// When a bucket holds too little.
    pub fn can_pay(
        &self,
        buckets: &ClientBuckets<'_>,
        client: &ApiClient,
        cost: u32,
    ) -> Result<(), Exhausted> {
        buckets.check(client, cost)?;
        self.parent_of(client).map_or(Ok(()), |parent| buckets.check(&parent, cost))
    }

    fn parent_of(&self, client: &ApiClient) -> Option<Arc<ApiClient>> {
        client.parent.as_deref().and_then(|id| self.by_id(id))
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::tests::row;
    use super::*;
    use belvedere_storage::store::api_clients::ApiClientRow;

    fn child(key: &str, parent: &str, capacity: Option<i64>) -> ApiClientRow {
        let parent_client_id = Some(format!("id of {parent}"));
        ApiClientRow { parent_client_id, rate_limit_capacity: capacity, ..row(key, true) }
    }

    #[test]
    fn children_spend_what_their_parent_may_and_no_more() {
        let children = (0..10).map(|n| child(&format!("bvc_{n}"), "bvc_a", None));
        let others = [row("bvc_a", true), child("bvc_small", "bvc_a", Some(1))];
        let clients = Clients::with(children.chain(others).collect());
        let (buckets, defaults) = (Buckets::default(), config::RateLimit { capacity: 100, refill_rate: 2.0 });
        let buckets = ClientBuckets { buckets: &buckets, defaults: &defaults, now: Timestamp(0), kind: "" };
        let pay = |key: &str| clients.pay(&buckets, &clients.get(key).unwrap(), 1);
        // A child has its own limit too, which applies when it is the smaller one.
        assert_eq!(pay("bvc_small").unwrap().remaining, 0);
        assert!(pay("bvc_small").is_err());
        // The parent may spend 5, and 1 is spent. It does not matter which child spends the others.
        for n in 0..4 {
            assert_eq!(pay(&format!("bvc_{n}")).unwrap().remaining, 3 - n);
        }
        assert!(pay("bvc_9").is_err() && pay("bvc_a").is_err());
        assert!(clients.can_pay(&buckets, &clients.get("bvc_9").unwrap(), 1).is_err());
        // When the parent's bucket was too empty, nothing was taken from the child's.
        let later = ClientBuckets { now: Timestamp(3_000_000), ..buckets };
        let paid = clients.pay(&later, &clients.get("bvc_9").unwrap(), 1).unwrap();
        assert_eq!((paid.limit, paid.remaining), (5, 4));
        // Calls of another kind have buckets of their own.
        let other = ClientBuckets { kind: "oauth:", ..buckets };
        assert!(clients.pay(&other, &clients.get("bvc_a").unwrap(), 5).is_ok());
    }
}
