//! Sends requests with a DPoP proof (RFC 9449), and remembers the nonces that servers require in it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use moka::sync::Cache;
use serde::Deserialize;
use url::Url;

use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_protocol::crypto::PrivateKey;
use belvedere_protocol::crypto::dpop::{self, ProofParams};
use belvedere_web::net::{Client, FetchedResponse, Limits, NetError, OutboundBody};

const DPOP: HeaderName = HeaderName::from_static("dpop");
const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// Attempts of a request: the first, one with the nonce that the server demands, and one for a nonce that expired in
/// between.
const MAX_ATTEMPTS: usize = 3;

/// Servers whose nonce is cached: all that have active sessions, except on the largest instances. A server without a
/// cached nonce costs one more request.
const MAX_NONCES: u64 = 10_000;

/// Time for which a nonce is cached. Nonces are valid for minutes; an expired one costs the same retry as none.
const NONCE_CACHE_TIME: Duration = Duration::from_mins(10);

/// Longest nonce that is accepted, because it is sent in every request.
const MAX_NONCE_BYTES: usize = 512;

/// Random bytes of a proof's `jti`.
const JTI_BYTES: usize = 16;

/// An HTTP client that adds DPoP proofs. Cheap to clone; clones share the cached nonces.
#[derive(Clone, Debug)]
pub struct DpopClient {
    net: Client,
    clock: Clock,
    random: Random,
    /// The last nonce of each origin.
    nonces: Cache<String, Arc<str>>,
}

/// A request that is sent with a proof.
#[derive(Clone, Debug)]
pub struct DpopRequest<'a> {
    pub method: Method,
    pub url: &'a str,
    pub headers: HeaderMap,
    pub body: Option<Bytes>,
    pub limits: Limits,
}

impl DpopClient {
    pub fn new(net: Client, clock: Clock, random: Random) -> Self {
        let nonces = Cache::builder().max_capacity(MAX_NONCES).time_to_live(NONCE_CACHE_TIME).build();
        Self { net, clock, random, nonces }
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn random(&self) -> &Random {
        &self.random
    }

    /// Sends a request with a proof by `key`, and with `token`, an access token that is bound to the key. Repeats it
    /// when the server demands a nonce.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn send(
        &self,
        key: &PrivateKey,
        token: Option<&str>,
        request: &DpopRequest<'_>,
    ) -> Result<FetchedResponse, NetError> {
        let mut attempt = 1;
        loop {
            let body = request.body.clone().map(OutboundBody::from);
            let headers = request.headers.clone();
            let fetched = self
                .send_once(key, token, &request.method, request.url, headers, body, request.limits)
                .await?;
            if attempt == MAX_ATTEMPTS || !demands_nonce(&fetched) {
                return Ok(fetched);
            }
            attempt += 1;
        }
    }

    /// Sends a request without repeating it, for bodies that can be sent only once. A demanded nonce is cached for the
    /// next request.
    ///
    /// # Errors
    /// As [`Client::request`].
    #[expect(clippy::too_many_arguments, reason = "the parts of a request, by value")]
    pub async fn send_once(
        &self,
        key: &PrivateKey,
        token: Option<&str>,
        method: &Method,
        url: &str,
        mut headers: HeaderMap,
        body: Option<OutboundBody>,
        limits: Limits,
    ) -> Result<FetchedResponse, NetError> {
        let parsed = Url::parse(url).map_err(|error| NetError::Refused(format!("not a URL: {error}")))?;
        let origin = parsed.origin().ascii_serialization();
        let nonce = self.nonces.get(&origin);
        let proof = ProofParams {
            method: method.as_str(),
            url: url.split(['?', '#']).next().unwrap_or(url),
            now: self.clock.now().as_seconds(),
            jti: &self.random.hex(JTI_BYTES),
            access_token: token,
            nonce: nonce.as_deref(),
        };
        let unusable = |what: &str| NetError::Refused(format!("the {what} is invalid"));
        let proof = dpop::prove(key, &proof).ok_or_else(|| unusable("DPoP key"))?;
        headers.insert(DPOP, HeaderValue::try_from(proof).map_err(|_| unusable("DPoP proof"))?);
        if let Some(token) = token {
            let mut value = HeaderValue::try_from(format!("DPoP {token}"));
            if let Ok(value) = &mut value {
                value.set_sensitive(true);
            }
            headers.insert(AUTHORIZATION, value.map_err(|_| unusable("access token"))?);
        }
        let fetched = self.net.send(method.clone(), url, headers, body, limits).await?;
        let new_nonce = fetched.headers.get(DPOP_NONCE).and_then(|value| value.to_str().ok());
        if let Some(new_nonce) = new_nonce.filter(|nonce| nonce.len() <= MAX_NONCE_BYTES && !nonce.is_empty())
            && nonce.as_deref() != Some(new_nonce)
        {
            self.nonces.insert(origin, new_nonce.into());
        }
        Ok(fetched)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorBody {
    error: String,
}

/// The `error` field of a response's JSON body; empty when there is none.
pub(crate) fn error_code(body: &[u8]) -> String {
    serde_json::from_slice::<ErrorBody>(body).unwrap_or_default().error
}

/// Whether the server refused a request because its proof needs a new nonce: 400 from an authorization server, 401 from
/// a PDS (RFC 9449 §8, §9).
fn demands_nonce(fetched: &FetchedResponse) -> bool {
    const CODE: &str = "use_dpop_nonce";
    let refused = matches!(fetched.status, StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED);
    if !refused || !fetched.headers.contains_key(DPOP_NONCE) {
        return false;
    }
    let challenged = fetched.headers.get_all(WWW_AUTHENTICATE).iter();
    challenged.filter_map(|value| value.to_str().ok()).any(|text| text.contains(CODE))
        || error_code(&fetched.body) == CODE
}
