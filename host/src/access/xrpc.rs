//! `/xrpc`: which application is calling, on behalf of whom, and whether it may still spend (service.md, XRPC
//! client identification and user authentication; auth-and-clients.md §3).

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::dpop;
use super::rate_limit::{Budget, Exhausted, Limit};
use super::service_jwt::{self, Spoken};
use super::{Access, ApiClient, ClientBuckets, Credential, Sender};
use crate::atproto::{Did, LexiconKind};
use crate::fair_share::Tenant;
use crate::http::{Error, Request};
use crate::pds::Authority;
use crate::scripts::Lineage;
use crate::settings::Settings;

/// Who is behind an XRPC request.
#[derive(Clone, Debug, Default)]
pub struct XrpcCaller {
    named: Option<Arc<ApiClient>>,
    user: Option<Did>,
    authority: Authority,
    bound: bool,
    budget: Option<Budget>,
    /// Of a call that a script made.
    lineage: Option<Lineage>,
}

impl XrpcCaller {
    /// The runs that a script's call is nested in; `None` for a call over HTTP.
    pub fn lineage(&self) -> Option<&Lineage> {
        self.lineage.as_ref()
    }

    /// Whose share the call takes.
    pub fn tenant(&self) -> Tenant {
        match (&self.lineage, &self.named, &self.user) {
            (Some(lineage), ..) => lineage.tenant().clone(),
            (None, Some(client), _) => client.tenant(),
            (None, None, Some(user)) => Tenant::of_did(user.as_str()),
            // No call is admitted without either.
            (None, None, None) => Tenant::Instance,
        }
    }

    /// The authenticated user; `None` for an anonymous call.
    pub fn did(&self) -> Option<&Did> {
        self.user.as_ref()
    }

    /// The application that the request names; `None` only for callers that need none, with a service token or a session
    /// cookie. It pays for the call and its share is used, but a name is no proof: what acts with stored sessions takes
    /// [`Self::authority`] or [`Self::proven_client`].
    pub fn named_client(&self) -> Option<&Arc<ApiClient>> {
        self.named.as_ref()
    }

    /// The application that the user proved to hold a session of (DPoP).
    pub fn proven_client(&self) -> Option<&Arc<ApiClient>> {
        let proven = self.authority.client()?;
        self.named.as_ref().filter(|named| *named.id == **proven)
    }

    /// Which stored sessions the call may act with. A service token proves none.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Whether the user's proof is good for this method only: what serves it may call no other procedure in their name.
    pub fn is_bound(&self) -> bool {
        self.bound
    }

    /// What the caller has left after this call.
    pub fn budget(&self) -> Option<Budget> {
        self.budget
    }
}

/// Tokens that a call costs when its lexicon doesn't say (settings `rate_limit.default_*_cost`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DefaultCosts {
    query: u32,
    procedure: u32,
    /// Methods without a lexicon here.
    proxy: u32,
}

impl Default for DefaultCosts {
    fn default() -> Self {
        Self { query: 1, procedure: 1, proxy: 1 }
    }
}

/// The default costs, replaced when the settings change.
#[derive(Debug, Default)]
pub struct Costs(ArcSwap<DefaultCosts>);

impl Costs {
    /// Takes over what the settings say now.
    pub fn reload(&self, settings: &Settings) {
        let mut costs = DefaultCosts::default();
        for (key, cost) in [
            ("rate_limit.default_query_cost", &mut costs.query),
            ("rate_limit.default_procedure_cost", &mut costs.procedure),
            ("rate_limit.default_proxy_cost", &mut costs.proxy),
        ] {
            let Some(text) = settings.get(key) else { continue };
            if let Ok(number) = text.trim().parse() {
                *cost = number;
            } else {
                tracing::warn!(key, "a setting is no number and is left at its default");
            }
        }
        self.0.store(Arc::new(costs));
    }

    fn of(&self, access: &Access, method: &str) -> u32 {
        let defaults = self.0.load();
        match access.registry.get(method) {
            None => defaults.proxy,
            Some(lexicon) => lexicon.token_cost.unwrap_or(match lexicon.kind {
                LexiconKind::Procedure => defaults.procedure,
                _ => defaults.query,
            }),
        }
    }
}

/// A call that is not let through, with what its caller has left if it was paid for.
#[derive(Debug)]
pub struct Turned {
    pub error: Error,
    pub budget: Option<Budget>,
}

/// Tells who calls and takes what the call costs. `method` is the NSID in the path.
///
/// An application that names itself and nothing more pays at once. Where there is a proof, that is looked at first, if
/// the application could pay: when it fails, the sender's address pays, and the application only for proofs that hold.
///
/// # Errors
/// 401 when client or user can't be told, 429 when the bucket is empty.
pub async fn admit(access: &Access, request: &Request, method: &str) -> Result<XrpcCaller, Turned> {
    let mut caller = XrpcCaller::default();
    match identify(access, request, method, &mut caller).await {
        Ok(()) => Ok(caller),
        Err(error) => Err(Turned { error, budget: caller.budget }),
    }
}

/// Lets a script call a method on behalf of its own caller, who pays for it as for a call over HTTP. Runs that nobody
/// called, events and jobs of the instance, pay nothing: they are bounded by themselves. `client` is the id of the API
/// client that pays, `authority` what the script's own caller proved.
///
/// # Errors
/// 401 when the client is not active any more, 429 when the bucket is empty.
pub fn admit_nested(
    access: &Access,
    client: Option<&str>,
    user: Option<Did>,
    authority: Authority,
    bound: bool,
    lineage: Lineage,
    method: &str,
) -> Result<XrpcCaller, Error> {
    let client = client
        .map(|id| access.clients.by_id(id).ok_or_else(|| Error::unauthorized("Invalid client")))
        .transpose()?;
    let cost = access.costs.of(access, method);
    let budget = match (&client, &user) {
        (Some(client), _) => Some(access.clients.pay(&buckets(access), client, cost)?),
        (None, Some(did)) => Some(pay_in_person(access, "service", did, cost)?),
        (None, None) => None,
    };
    Ok(XrpcCaller { named: client, user, authority, bound, budget, lineage: Some(lineage) })
}

/// The buckets of API clients for XRPC calls.
fn buckets(access: &Access) -> ClientBuckets<'_> {
    ClientBuckets {
        buckets: &access.buckets,
        defaults: &access.rate_limit,
        now: access.clock.now(),
        kind: "",
    }
}

/// Pays from the bucket of a user who needs no client.
fn pay_in_person(access: &Access, kind: &str, did: &Did, cost: u32) -> Result<Budget, Exhausted> {
    let defaults = &access.rate_limit;
    let limit = Limit { capacity: f64::from(defaults.capacity), refill_rate: defaults.refill_rate };
    access.sender_buckets.take(&format!("{kind} {did}"), limit, cost, access.clock.now())
}

async fn identify(
    access: &Access,
    request: &Request,
    method: &str,
    caller: &mut XrpcCaller,
) -> Result<(), Error> {
    let cost = access.costs.of(access, method);
    let buckets = buckets(access);
    caller.named = access.clients.identify(request)?;
    let client = caller.named.clone();
    let client = client.as_deref();
    let pay = || client.map(|client| access.clients.pay(&buckets, client, cost)).transpose();
    if let Some(client) = client {
        client.check_softly(request, buckets.now);
    }
    let credential = Credential::of(request.headers());
    let sender = Sender::of(access, request);
    if !matches!(credential, Credential::Absent) {
        sender.may_try()?;
        client.map_or(Ok(()), |client| access.clients.can_pay(&buckets, client, cost))?;
    }
    match credential {
        // 1. DPoP: sessions of third-party applications, always with a client key.
        // 4. The session cookie of the dashboard, which needs no client key, comes in where there is no header.
        Credential::Dpop(token) => {
            let client = client.ok_or_else(no_client)?;
            let (method, path) = (request.method(), request.uri().path());
            let proved = access.proofs.verify_request(client, method, path, request.headers(), token).await;
            let proved = sender.charge(proved, dpop::Refused::is_failure)?;
            caller.budget = pay()?;
            let authority =
                Authority::Session { id: proved.id.into(), client: Some(client.id.as_str().into()) };
            (caller.user, caller.authority) = (Some(proved.did), authority);
        }
        // 2. Space credentials: space routes only, and this is none.
        Credential::Space(_) => {
            sender.failed();
            return Err(Error::unauthorized("space credentials are for space routes only"));
        }
        Credential::AdminKey(_) => {
            sender.failed();
            return Err(Error::unauthorized("admin API keys are not accepted on XRPC routes"));
        }
        // 3. Service tokens. Their callers need no client key; then the DID has a bucket of its own.
        Credential::Bearer(token) => {
            let spoken = access.tokens.verify(&access.resolver, &sender, token, Some(method)).await;
            let Spoken { did, bound } = sender.charge(spoken, service_jwt::Refused::is_failure)?;
            caller.budget = match pay()? {
                Some(budget) => Some(budget),
                None => Some(pay_in_person(access, "service", &did, cost)?),
            };
            (caller.user, caller.bound) = (Some(did), bound);
        }
        Credential::Unknown => {
            sender.failed();
            return Err(Error::unauthorized("this kind of authorization is not accepted here"));
        }
        // 4. The cookie of a browser that is logged in, which needs no client key. 5. Anonymous: an application alone.
        // Whether that is enough is the method's to say.
        Credential::Absent => {
            caller.budget = pay()?;
            let user = access.web_sessions.user(request.method(), request.headers(), buckets.now).await?;
            let Some(user) = user else {
                return if client.is_some() { Ok(()) } else { Err(no_client()) };
            };
            if client.is_none() {
                caller.budget = Some(pay_in_person(access, "session", &user.did, cost)?);
            }
            // The cookie is of a login at the instance itself, whichever client the request names.
            let authority = Authority::Session { id: user.session.into(), client: None };
            (caller.user, caller.authority) = (Some(user.did), authority);
        }
    }
    Ok(())
}

fn no_client() -> Error {
    Error::unauthorized("Missing client identification")
}
