//! The exchanges with an authorization server: pushed authorization request, tokens, refresh, revocation.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;
use url::form_urlencoded;

use super::courier::error_code;
use super::{AuthorizationServer, Courier, Parcel};
use crate::clock::Timestamp;
use crate::config::Secret;
use crate::crypto::{PrivateKey, jws};
use crate::net::{Fetched, Limits, NetError};
use crate::random::Random;

/// `client_assertion_type` of RFC 7523.
pub const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Seconds that an assertion is good for.
pub const ASSERTION_LIFE: i64 = 60;

/// Random bytes of an assertion's `jti`.
const JTI_BYTES: usize = 16;

/// Who we are to an authorization server.
#[derive(Debug)]
pub struct ClientIdentity {
    /// URL of the client's metadata.
    pub client_id: String,
    /// The key that proves it, with its id; none for public clients.
    pub key: Option<(String, PrivateKey)>,
}

/// What a token endpoint gave.
#[derive(Clone, Debug)]
pub struct Tokens {
    pub access_token: Secret<String>,
    pub refresh_token: Option<Secret<String>>,
    pub expires_at: Option<Timestamp>,
    /// Space-separated.
    pub scope: String,
    /// The account, as atproto servers name it.
    pub sub: Option<String>,
}

/// Why an exchange was not successful.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    #[error("the authorization server does not answer: {0}")]
    Net(#[from] NetError),
    /// With the status and the code of RFC 6749 §5.2.
    #[error("the authorization server answered {0} ({1})")]
    Refused(StatusCode, String),
    #[error("the authorization server's answer makes no sense: {0}")]
    Malformed(&'static str),
}

impl FlowError {
    /// The grant is used up, revoked, or of somebody else: no retry helps.
    pub fn is_invalid_grant(&self) -> bool {
        matches!(self, Self::Refused(_, code) if code == "invalid_grant")
    }
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    token_type: String,
    refresh_token: Option<String>,
    expires_in: Option<i64>,
    #[serde(default)]
    scope: String,
    sub: Option<String>,
}

#[derive(Deserialize)]
struct ParAnswer {
    request_uri: String,
}

/// A JWT by which a client authenticates (RFC 7523 §2.2), for one exchange with `audience`.
pub fn assertion(
    key: &PrivateKey,
    kid: &str,
    client_id: &str,
    audience: &str,
    random: &Random,
    now: Timestamp,
) -> String {
    let header = json!({ "typ": "JWT", "alg": key.algorithm().as_str(), "kid": kid });
    let now = now.as_seconds();
    let claims = json!({
        "iss": client_id, "sub": client_id, "aud": audience,
        "iat": now, "exp": now + ASSERTION_LIFE, "jti": random.hex(JTI_BYTES),
    });
    jws::sign_with(key, &header, &claims)
}

/// Announces what a user is to be asked (RFC 9126); the `request_uri` for the authorization endpoint.
///
/// # Errors
/// When the server refuses or does not answer.
pub async fn push(
    courier: &Courier,
    server: &AuthorizationServer,
    client: &ClientIdentity,
    key: &PrivateKey,
    request: &[(&str, &str)],
) -> Result<String, FlowError> {
    let url = &server.pushed_authorization_request_endpoint;
    let fetched = post(courier, server, url, client, key, request).await?;
    let answer: ParAnswer = read(&fetched)?;
    Ok(answer.request_uri)
}

/// Exchanges an authorization code for tokens (RFC 6749 §4.1.3).
///
/// # Errors
/// As [`push`].
pub async fn exchange(
    courier: &Courier,
    server: &AuthorizationServer,
    client: &ClientIdentity,
    key: &PrivateKey,
    (code, verifier, redirect_uri): (&str, &str, &str),
) -> Result<Tokens, FlowError> {
    let form = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("code_verifier", verifier),
        ("redirect_uri", redirect_uri),
    ];
    tokens(courier, &post(courier, server, &server.token_endpoint, client, key, &form).await?)
}

/// Exchanges a refresh token for new tokens (RFC 6749 §6). The old one is used up, whatever becomes of the answer.
///
/// # Errors
/// As [`push`].
pub async fn refresh(
    courier: &Courier,
    server: &AuthorizationServer,
    client: &ClientIdentity,
    key: &PrivateKey,
    refresh_token: &str,
) -> Result<Tokens, FlowError> {
    let form = [("grant_type", "refresh_token"), ("refresh_token", refresh_token)];
    tokens(courier, &post(courier, server, &server.token_endpoint, client, key, &form).await?)
}

/// Ends a session at its server (RFC 7009).
///
/// # Errors
/// As [`push`]; a server without such an endpoint is no error.
pub async fn revoke(
    courier: &Courier,
    server: &AuthorizationServer,
    client: &ClientIdentity,
    key: &PrivateKey,
    token: &str,
) -> Result<(), FlowError> {
    let Some(url) = &server.revocation_endpoint else { return Ok(()) };
    post(courier, server, url, client, key, &[("token", token)]).await.map(drop)
}

async fn post(
    courier: &Courier,
    server: &AuthorizationServer,
    url: &str,
    client: &ClientIdentity,
    key: &PrivateKey,
    form: &[(&str, &str)],
) -> Result<Fetched, FlowError> {
    let headers = HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded")),
        (ACCEPT, HeaderValue::from_static("application/json")),
    ]);
    let body = Some(body_of(courier, server, client, form));
    let parcel = Parcel { method: Method::POST, url, headers, body, limits: Limits::DOCUMENT };
    let fetched = courier.send(key, None, &parcel).await?;
    if fetched.status.is_success() {
        return Ok(fetched);
    }
    // A code of the server's own choosing goes into logs and messages: cut, and never its free text.
    let code: String = error_code(&fetched.body).chars().take(64).collect();
    Err(FlowError::Refused(fetched.status, code))
}

fn body_of(
    courier: &Courier,
    server: &AuthorizationServer,
    client: &ClientIdentity,
    form: &[(&str, &str)],
) -> Bytes {
    let mut body = form_urlencoded::Serializer::new(String::new());
    body.append_pair("client_id", &client.client_id).extend_pairs(form);
    if let Some((kid, client_key)) = &client.key {
        let (random, now) = (courier.random(), courier.clock().now());
        let assertion = assertion(client_key, kid, &client.client_id, &server.issuer, random, now);
        body.append_pair("client_assertion_type", ASSERTION_TYPE);
        body.append_pair("client_assertion", &assertion);
    }
    body.finish().into()
}

fn read<'a, T: Deserialize<'a>>(fetched: &'a Fetched) -> Result<T, FlowError> {
    serde_json::from_slice(&fetched.body).map_err(|_| FlowError::Malformed("a field is missing"))
}

fn tokens(courier: &Courier, fetched: &Fetched) -> Result<Tokens, FlowError> {
    let answer: TokenAnswer = read(fetched)?;
    if !answer.token_type.eq_ignore_ascii_case("dpop") {
        return Err(FlowError::Malformed("the token is not bound to the DPoP key"));
    }
    let now = courier.clock().now();
    Ok(Tokens {
        access_token: Secret::new(answer.access_token),
        refresh_token: answer.refresh_token.map(Secret::new),
        expires_at: answer.expires_in.filter(|seconds| *seconds > 0).map(|seconds| now.plus_seconds(seconds)),
        scope: answer.scope,
        sub: answer.sub,
    })
}
