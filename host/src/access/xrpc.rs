//! `/xrpc`: which application is calling, on behalf of whom, and whether it may still spend (service.md, XRPC
//! client identification and user authentication; auth-and-clients.md §3).

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::rate_limit::{Budget, Limit};
use super::service_jwt::Spoken;
use super::{ApiClient, Credential};
use crate::app::App;
use crate::atproto::{Did, LexiconKind};
use crate::config;
use crate::http::{Error, Request};
use crate::settings::Settings;

/// Who is behind an XRPC request.
#[derive(Clone, Debug, Default)]
pub struct XrpcCaller {
    /// The application. `None` only for those who need none: service tokens, and later session cookies.
    pub client: Option<Arc<ApiClient>>,
    user: Option<Did>,
    session: Option<Arc<str>>,
    bound: bool,
    budget: Option<Budget>,
    depth: u32,
}

impl XrpcCaller {
    /// How many scripts' runs the call is nested in: 0 for one that came over HTTP.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The authenticated user; `None` for an anonymous call.
    pub fn did(&self) -> Option<&Did> {
        self.user.as_ref()
    }

    /// The session with the user's PDS that their proof belongs to, by id. A service token belongs to none.
    pub fn session(&self) -> Option<&Arc<str>> {
        self.session.as_ref()
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

    fn of(&self, app: &App, method: &str) -> u32 {
        let defaults = self.0.load();
        match app.registry.get(method) {
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
/// The application is told first, then pays, and only then is the user's proof looked at: so guessing proofs, and
/// calling procedures without any, is limited like everything else.
///
/// # Errors
/// 401 when client or user can't be told, 429 when the bucket is empty.
pub async fn admit(app: &App, request: &Request, method: &str) -> Result<XrpcCaller, Turned> {
    let mut caller = XrpcCaller::default();
    match identify(app, request, method, &mut caller).await {
        Ok(()) => Ok(caller),
        Err(error) => Err(Turned { error, budget: caller.budget }),
    }
}

/// Lets a script call a method on behalf of its own caller, who pays for it as for a call over HTTP. Runs that nobody
/// called, events and jobs of the instance, pay nothing: they are bounded by themselves. `client` is an API client's id.
///
/// # Errors
/// 401 when the client is not active any more, 429 when the bucket is empty.
pub fn admit_nested(
    app: &App,
    client: Option<&str>,
    user: Option<Did>,
    session: Option<Arc<str>>,
    bound: bool,
    depth: u32,
    method: &str,
) -> Result<XrpcCaller, Error> {
    let client = client
        .map(|id| app.clients.by_id(id).ok_or_else(|| Error::unauthorized("Invalid client")))
        .transpose()?;
    let (now, cost, defaults) = (app.clock.now(), app.costs.of(app, method), &app.config.rate_limit);
    let budget = match (&client, &user) {
        (Some(client), _) => Some(app.buckets.take(&client.key, client.limit(defaults), cost, now)?),
        (None, Some(did)) => {
            Some(app.buckets.take(&service_bucket(did), default_limit(defaults), cost, now)?)
        }
        (None, None) => None,
    };
    Ok(XrpcCaller { client, user, session, bound, budget, depth })
}

/// The bucket of a caller with a service token and no client.
fn service_bucket(did: &Did) -> String {
    format!("service:{did}")
}

fn default_limit(defaults: &config::RateLimit) -> Limit {
    Limit { capacity: f64::from(defaults.capacity), refill_rate: defaults.refill_rate }
}

async fn identify(app: &App, request: &Request, method: &str, caller: &mut XrpcCaller) -> Result<(), Error> {
    let now = app.clock.now();
    let defaults = &app.config.rate_limit;
    let cost = app.costs.of(app, method);
    caller.client = app.clients.identify(request)?;
    if let Some(client) = &caller.client {
        client.check_softly(request, now);
        caller.budget = Some(app.buckets.take(&client.key, client.limit(defaults), cost, now)?);
    }
    match Credential::of(request.headers()) {
        // 1. DPoP: sessions of third-party applications, always with a client key.
        // 4. The session cookie of the dashboard, which needs no client key, comes in where there is no header.
        Credential::Dpop(token) => {
            let client = caller.client.as_deref().ok_or_else(no_client)?;
            let (method, path) = (request.method(), request.uri().path());
            let proved = app.proofs.verify_request(client, method, path, request.headers(), token).await?;
            (caller.user, caller.session) = (Some(proved.did), Some(proved.id.into()));
        }
        // 2. Space credentials: space routes only, and this is none.
        Credential::Space(_) => {
            return Err(Error::unauthorized("space credentials are for space routes only"));
        }
        Credential::AdminKey(_) => {
            return Err(Error::unauthorized("admin API keys are not accepted on XRPC routes"));
        }
        // 3. Service tokens. Their callers need no client key; then the DID has a bucket of its own.
        Credential::Bearer(token) => {
            let Spoken { did, bound } = match app.tokens.verify(&app.resolver, token, Some(method)).await {
                Ok(spoken) => spoken,
                Err(refused) => return Err(refused.into()),
            };
            if caller.client.is_none() {
                let limit = default_limit(defaults);
                caller.budget = Some(app.buckets.take(&service_bucket(&did), limit, cost, now)?);
            }
            (caller.user, caller.bound) = (Some(did), bound);
        }
        Credential::Unknown => {
            return Err(Error::unauthorized("this kind of authorization is not accepted here"));
        }
        // 4. The cookie of a browser that is logged in, which needs no client key. 5. Anonymous: an application alone.
        // Whether that is enough is the method's to say.
        Credential::Absent => {
            let user = app.web_sessions.user(request.method(), request.headers(), now).await?;
            let Some(user) = user else {
                return if caller.client.is_some() { Ok(()) } else { Err(no_client()) };
            };
            if caller.client.is_none() {
                let limit = default_limit(defaults);
                let bucket = format!("session:{}", user.did);
                caller.budget = Some(app.buckets.take(&bucket, limit, cost, now)?);
            }
            (caller.user, caller.session) = (Some(user.did), Some(user.session.into()));
        }
    }
    Ok(())
}

fn no_client() -> Error {
    Error::unauthorized("Missing client identification")
}
