//! Requests with a DPoP proof (RFC 9449), and the nonces that servers want in it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use moka::sync::Cache;
use serde::Deserialize;
use url::Url;

use crate::clock::Clock;
use crate::crypto::PrivateKey;
use crate::crypto::dpop::{self, ProofFor};
use crate::net::{Client, Fetched, Limits, NetError, Outgoing};
use crate::random::Random;

const DPOP: HeaderName = HeaderName::from_static("dpop");
const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// Times a request is sent: once, once more with the nonce that was demanded, and once for a nonce that was replaced in
/// between.
const ATTEMPTS: usize = 3;

/// Servers whose nonce is remembered: as many as have sessions that are used within the hour, for all but the largest
/// instances; one more request is the price for the others.
const NONCES: u64 = 10_000;

/// Nonces live for minutes. One that is older costs the same retry as none.
const NONCE_LIFE: Duration = Duration::from_mins(10);

/// A longer one is no nonce, and would be sent back in every request.
const MAX_NONCE_BYTES: usize = 512;

/// Random bytes of a proof's `jti`.
const JTI_BYTES: usize = 16;

/// Sends requests for holders of DPoP keys. Cheap to clone; clones share what servers demanded.
#[derive(Clone, Debug)]
pub struct Courier {
    net: Client,
    clock: Clock,
    random: Random,
    /// By origin.
    nonces: Cache<String, Arc<str>>,
}

/// A request to be sent with a proof.
#[derive(Clone, Debug)]
pub struct Parcel<'a> {
    pub method: Method,
    pub url: &'a str,
    pub headers: HeaderMap,
    pub body: Option<Bytes>,
    pub limits: Limits,
}

impl Courier {
    pub fn new(net: Client, clock: Clock, random: Random) -> Self {
        let nonces = Cache::builder().max_capacity(NONCES).time_to_live(NONCE_LIFE).build();
        Self { net, clock, random, nonces }
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn random(&self) -> &Random {
        &self.random
    }

    /// Sends a request with a proof by `key`, and with the access token it is bound to, if there is one. Again, when the
    /// server demands a nonce.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn send(
        &self,
        key: &PrivateKey,
        token: Option<&str>,
        parcel: &Parcel<'_>,
    ) -> Result<Fetched, NetError> {
        let mut attempt = 1;
        loop {
            let body = parcel.body.clone().map(Outgoing::from);
            let headers = parcel.headers.clone();
            let fetched =
                self.once(key, token, &parcel.method, parcel.url, headers, body, parcel.limits).await?;
            if attempt == ATTEMPTS || !demands_nonce(&fetched) {
                return Ok(fetched);
            }
            attempt += 1;
        }
    }

    /// Sends a request whose body can be sent once only: what the server demands is remembered for the next one.
    ///
    /// # Errors
    /// As [`Client::request`].
    #[expect(clippy::too_many_arguments, reason = "the parts of a request, taken by value")]
    pub async fn once(
        &self,
        key: &PrivateKey,
        token: Option<&str>,
        method: &Method,
        url: &str,
        mut headers: HeaderMap,
        body: Option<Outgoing>,
        limits: Limits,
    ) -> Result<Fetched, NetError> {
        let parsed = Url::parse(url).map_err(|error| NetError::Refused(format!("not a URL: {error}")))?;
        let origin = parsed.origin().ascii_serialization();
        let nonce = self.nonces.get(&origin);
        let proof = ProofFor {
            method: method.as_str(),
            url: url.split(['?', '#']).next().unwrap_or(url),
            now: self.clock.now().as_seconds(),
            jti: &self.random.hex(JTI_BYTES),
            access_token: token,
            nonce: nonce.as_deref(),
        };
        let unusable = |what: &str| NetError::Refused(format!("the {what} can't be sent"));
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
        let fresh = fetched.headers.get(DPOP_NONCE).and_then(|value| value.to_str().ok());
        if let Some(fresh) = fresh.filter(|fresh| fresh.len() <= MAX_NONCE_BYTES && !fresh.is_empty())
            && nonce.as_deref() != Some(fresh)
        {
            self.nonces.insert(origin, fresh.into());
        }
        Ok(fetched)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorBody {
    error: String,
}

/// The code of `{error}` in an answer's body; empty when there is none.
pub(crate) fn error_code(body: &[u8]) -> String {
    serde_json::from_slice::<ErrorBody>(body).unwrap_or_default().error
}

/// Whether the server refused a request only because its proof lacked a nonce: 400 from an authorization server, 401 from
/// a PDS (RFC 9449 §8, §9).
fn demands_nonce(fetched: &Fetched) -> bool {
    const CODE: &str = "use_dpop_nonce";
    let refused = matches!(fetched.status, StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED);
    if !refused || !fetched.headers.contains_key(DPOP_NONCE) {
        return false;
    }
    let challenged = fetched.headers.get_all(WWW_AUTHENTICATE).iter();
    challenged.filter_map(|value| value.to_str().ok()).any(|text| text.contains(CODE))
        || error_code(&fetched.body) == CODE
}
