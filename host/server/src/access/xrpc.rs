//! Admits XRPC calls: identifies the application and the user, and charges the call (service.md, XRPC client
//! identification and user authentication; auth-and-clients.md §3).

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{Method, StatusCode};

use super::dpop;
use super::rate_limit::{Budget, Exhausted, Limit};
use super::service_jwt::{ServiceTokenError, VerifiedToken};
use super::tickets::{TICKET_PARAM, TicketError};
use super::{Access, ApiClient, ClientBuckets, Credential, Sender};
use belvedere_instance::events::Event;
use belvedere_instance::lexicons::Registry;
use belvedere_instance::pds::SessionAuthority;
use belvedere_instance::settings::Settings;
use belvedere_instance::xrpc::{Caller, Verb};
use belvedere_protocol::atproto::Did;
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::{Error, Request, websocket};

/// The name under which calls of methods without a lexicon here are counted.
const UNKNOWN_METHOD: &str = "(unknown)";

/// An admitted XRPC request.
#[derive(Debug, Default)]
pub struct Admission {
    pub caller: Caller,
    /// The application that the request names; `None` only for callers that need none, with a service token or a
    /// session cookie.
    pub client: Option<Arc<ApiClient>>,
    /// The remaining budget after this call.
    pub budget: Option<Budget>,
    /// The scopes of the session that the caller proved to hold at the client, space-separated.
    pub session_scopes: Option<String>,
}

/// A rejected call, with the remaining budget if it was already charged.
#[derive(Debug)]
pub struct Rejected {
    pub error: Error,
    pub budget: Option<Budget>,
}

/// The parts of a called method that decide its cost.
#[derive(Clone, Copy, Debug)]
pub struct CalledMethod<'a> {
    pub nsid: &'a str,
    pub verb: Verb,
    /// The method is this server's own, whatever lexicons are uploaded.
    pub is_fixed: bool,
}

impl<'a> CalledMethod<'a> {
    /// The name under which calls are counted. Callers invent names of methods that have no lexicon here: these share one.
    pub fn counted_name(&self, registry: &Registry) -> &'a str {
        if self.is_fixed || registry.get(self.nsid).is_some() { self.nsid } else { UNKNOWN_METHOD }
    }
}

/// Tokens that a call costs when its lexicon doesn't say (settings `rate_limit.default_*_cost`), and a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DefaultCosts {
    query: u32,
    procedure: u32,
    /// Methods without a lexicon here.
    proxy: u32,
    /// A message of a subscription.
    message: u32,
}

impl Default for DefaultCosts {
    fn default() -> Self {
        Self { query: 1, procedure: 1, proxy: 1, message: 0 }
    }
}

/// The default costs, replaced when the settings change.
#[derive(Debug, Default)]
pub struct Costs(ArcSwap<DefaultCosts>);

impl Costs {
    /// Reads the costs from the settings.
    pub fn reload(&self, settings: &Settings) {
        let mut costs = DefaultCosts::default();
        for (key, cost) in [
            ("rate_limit.default_query_cost", &mut costs.query),
            ("rate_limit.default_procedure_cost", &mut costs.procedure),
            ("rate_limit.default_proxy_cost", &mut costs.proxy),
            ("rate_limit.message_cost", &mut costs.message),
        ] {
            if let Some(number) = settings.number(key) {
                *cost = number;
            }
        }
        self.0.store(Arc::new(costs));
    }

    fn of(&self, access: &Access, method: &CalledMethod<'_>) -> u32 {
        let defaults = self.0.load();
        let default = || match method.verb {
            Verb::Procedure => defaults.procedure,
            Verb::Query => defaults.query,
        };
        match access.core.registry.get(method.nsid) {
            Some(lexicon) => lexicon.token_cost.unwrap_or_else(default),
            None if method.is_fixed => default(),
            None => defaults.proxy,
        }
    }
}

impl Access {
    /// Identifies the caller of an XRPC request and charges the call.
    ///
    /// An application that only names itself is charged at once. A proof is checked before, if the application could
    /// pay: for a proof that fails the sender's address is charged, and the application only for proofs that hold.
    ///
    /// # Errors
    /// 401 when client or user can't be identified, 429 when the bucket is empty.
    pub async fn admit_xrpc(
        &self,
        request: &Request,
        method: CalledMethod<'_>,
    ) -> Result<Admission, Rejected> {
        let mut admission = Admission::default();
        let outcome = identify(self, request, method, &mut admission).await;
        if let Some(client) = &admission.client {
            self.note_use(client, method, &outcome);
        }
        match outcome {
            Ok(()) => Ok(admission),
            Err(error) => Err(Rejected { error, budget: admission.budget }),
        }
    }

    /// Counts a call of an application that was admitted, or refused for its rate.
    fn note_use(&self, client: &ApiClient, method: CalledMethod<'_>, outcome: &Result<(), Error>) {
        let now = self.core.clock.now();
        let name = method.counted_name(&self.core.registry);
        match outcome {
            Ok(()) => {
                self.client_usage.count(&client.id, name, false, now);
                self.users.touch_client(self, &client.id, now);
            }
            Err(error) if error.status == StatusCode::TOO_MANY_REQUESTS => {
                self.client_usage.count(&client.id, name, true, now);
            }
            Err(_) => {}
        }
    }

    /// Whole tokens in the bucket of an application on this host, and its limit. `None` for one that is not active.
    pub fn tokens_of(&self, client: &str) -> Option<(u64, Limit)> {
        let client = self.clients.by_id(client)?;
        let limit = client.limit(&self.rate_limit);
        Some((self.buckets.tokens(&client.key, limit, self.core.clock.now()), limit))
    }

    /// Charges a call of a method that needs no client: the application that the request names, else the sender's address.
    ///
    /// # Errors
    /// 401 when the request names an unknown client, 429 when the bucket is empty.
    pub fn admit_public(&self, request: &Request, method: CalledMethod<'_>) -> Result<Admission, Error> {
        let cost = self.costs.of(self, &method);
        let (mut caller, client) = (Caller::default(), self.clients.named_by(request)?);
        let budget = if let Some(client) = &client {
            (caller.client, caller.tenant) = (Some(client.id.as_str().into()), client.tenant());
            self.clients.pay(&buckets(self), client, cost)?
        } else {
            caller.tenant = Sender::of(self, request).tenant().clone();
            charge_sender(self, &format!("anonymous {}", caller.tenant), cost)?
        };
        Ok(Admission { caller, client, budget: Some(budget), session_scopes: None })
    }

    /// Charges a call whose caller has proved a right without a session: the application that the request names, else the
    /// bucket of `key`.
    pub(super) fn charge_bearer(
        &self,
        client: Option<&ApiClient>,
        key: &str,
        method: CalledMethod<'_>,
    ) -> Result<Budget, Exhausted> {
        let cost = self.costs.of(self, &method);
        match client {
            Some(client) => self.clients.pay(&buckets(self), client, cost),
            None => charge_sender(self, key, cost),
        }
    }

    /// Charges a call that a script makes on behalf of its own caller, as the same call over HTTP. Runs of events and
    /// of the instance's own jobs have no caller and pay nothing: they are bounded by themselves.
    ///
    /// # Errors
    /// 401 when the client is no longer active, 429 when the bucket is empty.
    pub fn charge_nested(&self, caller: &Caller, method: CalledMethod<'_>) -> Result<(), Error> {
        self.charge_caller(caller, self.costs.of(self, &method))
    }

    /// Charges messages that a caller gets from a subscription.
    ///
    /// # Errors
    /// Those of [`Self::charge_nested`].
    pub fn charge_messages(&self, caller: &Caller, count: usize) -> Result<(), Error> {
        let cost = self.costs.0.load().message;
        if cost == 0 {
            return Ok(());
        }
        self.charge_caller(caller, cost.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX)))
    }

    fn charge_caller(&self, caller: &Caller, cost: u32) -> Result<(), Error> {
        if let Some(id) = &caller.client {
            let client = self.clients.by_id(id).ok_or_else(|| Error::unauthorized("Invalid client"))?;
            self.clients.pay(&buckets(self), &client, cost)?;
        } else if let Some(did) = &caller.did {
            charge_user(self, "service", did, cost)?;
        }
        Ok(())
    }
}

/// The buckets of API clients for XRPC calls.
fn buckets(access: &Access) -> ClientBuckets<'_> {
    ClientBuckets {
        buckets: &access.buckets,
        defaults: &access.rate_limit,
        now: access.core.clock.now(),
        kind: "",
    }
}

/// Charges the bucket of a user who needs no client.
fn charge_user(access: &Access, kind: &str, did: &Did, cost: u32) -> Result<Budget, Exhausted> {
    charge_sender(access, &format!("{kind} {did}"), cost)
}

/// Charges a bucket with the limit of a client that has none of its own.
fn charge_sender(access: &Access, key: &str, cost: u32) -> Result<Budget, Exhausted> {
    let defaults = &access.rate_limit;
    let limit = Limit { capacity: f64::from(defaults.capacity), refill_rate: defaults.refill_rate };
    access.sender_buckets.take(key, limit, cost, access.core.clock.now())
}

async fn identify(
    access: &Access,
    request: &Request,
    method: CalledMethod<'_>,
    admission: &mut Admission,
) -> Result<(), Error> {
    let cost = access.costs.of(access, &method);
    let buckets = buckets(access);
    admission.client = access.clients.named_by(request)?;
    let client = admission.client.clone();
    let client = client.as_deref();
    let caller = &mut admission.caller;
    if let Some(client) = client {
        caller.client = Some(client.id.as_str().into());
        caller.tenant = client.tenant();
    }
    let pay = || client.map(|client| access.clients.pay(&buckets, client, cost)).transpose();
    if let Some(client) = client {
        client.warn_on_mismatch(request, buckets.now);
    }
    let credential = Credential::of(request.headers());
    let sender = Sender::of(access, request);
    if !matches!(credential, Credential::Absent) {
        sender.check_failures()?;
        client.map_or(Ok(()), |client| access.clients.can_pay(&buckets, client, cost))?;
    }
    match credential {
        // 1. DPoP: sessions of third-party applications, always with a client key.
        Credential::Dpop(token) => {
            let client = client.ok_or_else(no_client)?;
            let (method, path) = (request.method(), request.uri().path());
            let proved = access.proofs.verify_request(client, method, path, request.headers(), token).await;
            let proved = sender.charge_if_failure(proved, dpop::DpopError::is_failure)?;
            admission.budget = pay()?;
            let authority =
                SessionAuthority::Session { id: proved.id.into(), client: Some(client.id.as_str().into()) };
            (caller.did, caller.authority) = (Some(proved.did), authority);
            admission.session_scopes = Some(proved.scopes);
        }
        // 2. Space credentials, which only space routes accept.
        Credential::Space(_) => {
            sender.charge_failure();
            return Err(Error::unauthorized("space credentials are for space routes only"));
        }
        Credential::AdminKey(_) => {
            sender.charge_failure();
            return Err(Error::unauthorized("admin API keys are not accepted on XRPC routes"));
        }
        // 3. Service tokens. Their callers need no client key; then the DID has a bucket of its own.
        Credential::Bearer(token) => {
            let verified =
                access.tokens.verify(&access.core.resolver, &sender, token, Some(method.nsid)).await;
            if let Err(ServiceTokenError::Denied(denial)) = &verified
                && sender.may_log_denial()
            {
                access.core.events.record(Event::ServiceAuthDenied {
                    caller: denial.did.to_string(),
                    method: method.nsid.to_owned(),
                    fragment: denial.fragment.clone(),
                    reason: denial.reason.clone(),
                });
            }
            let VerifiedToken { did, method_bound } =
                sender.charge_if_failure(verified, ServiceTokenError::is_failure)?;
            admission.budget = match pay()? {
                Some(budget) => Some(budget),
                None => Some(charge_user(access, "service", &did, cost)?),
            };
            (caller.did, caller.method_bound) = (Some(did), method_bound);
        }
        Credential::Unknown => {
            sender.charge_failure();
            return Err(Error::unauthorized("this kind of authorization is not accepted here"));
        }
        // 4. The cookie of a logged-in browser, which needs no client key. 5. Anonymous: an application without a user,
        // which some methods refuse.
        Credential::Absent => {
            let is_socket = websocket::is_upgrade(request);
            if is_socket && let Some(ticket) = request.query(TICKET_PARAM) {
                let client = client.ok_or_else(no_client)?;
                let did = holder_of(access, &sender, client, &ticket, method).await?;
                admission.budget = pay()?;
                (caller.did, caller.method_bound) = (Some(did), true);
                return Ok(());
            }
            admission.budget = pay()?;
            // A page of another site could read the messages of a WebSocket, which is no matter of CORS.
            let verb = if is_socket { &Method::POST } else { request.method() };
            let user = access.web_sessions.user(verb, request.headers(), buckets.now).await?;
            let Some(user) = user else {
                return if client.is_some() { Ok(()) } else { Err(no_client()) };
            };
            if client.is_none() {
                admission.budget = Some(charge_user(access, "session", &user.did, cost)?);
            }
            // The cookie belongs to a login at the instance itself, even if the request names a client.
            let authority = SessionAuthority::Session { id: user.session.into(), client: None };
            (caller.did, caller.authority) = (Some(user.did), authority);
        }
    }
    if let (None, Some(did)) = (client, &caller.did) {
        caller.tenant = Tenant::of_did(did.as_str());
    }
    Ok(())
}

/// The account that a ticket was issued to.
async fn holder_of(
    access: &Access,
    sender: &Sender<'_>,
    client: &ApiClient,
    ticket: &str,
    method: CalledMethod<'_>,
) -> Result<Did, Error> {
    sender.check_failures()?;
    let redeemed = access.redeem_ticket(ticket, client, method.nsid).await;
    let is_failure = |error: &TicketError| matches!(error, TicketError::Invalid);
    sender.charge_if_failure(redeemed, is_failure).map_err(|error| match error {
        TicketError::Invalid => Error::unauthorized(error.to_string()),
        TicketError::Unknown(error) => Error::internal(error),
    })
}

fn no_client() -> Error {
    Error::unauthorized("Missing client identification")
}
