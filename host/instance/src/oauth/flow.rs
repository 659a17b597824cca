//! Calls the endpoints of an authorization server: pushed authorization request, token exchange, refresh, revocation.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;
use url::form_urlencoded;

use super::dpop_client::error_code;
use super::{AuthorizationServer, DpopClient, DpopRequest};
use crate::config::Secret;
use belvedere_base::clock::Timestamp;
use belvedere_base::random::Random;
use belvedere_protocol::crypto::{PrivateKey, jws};
use belvedere_web::net::{FetchedResponse, Limits, NetError};

/// `client_assertion_type` of RFC 7523.
pub const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Seconds for which an assertion is valid.
pub const ASSERTION_LIFE: i64 = 60;

/// Random bytes of an assertion's `jti`.
const JTI_BYTES: usize = 16;

/// The credentials of an OAuth client at authorization servers.
#[derive(Debug)]
pub struct ClientCredentials {
    /// URL of the client's metadata.
    pub client_id: String,
    /// The key for client assertions, with its id; `None` for public clients.
    pub key: Option<(String, PrivateKey)>,
}

/// The response of a token endpoint.
#[derive(Clone, Debug)]
pub struct Tokens {
    pub access_token: Secret<String>,
    pub refresh_token: Option<Secret<String>>,
    pub expires_at: Option<Timestamp>,
    /// Space-separated.
    pub scope: String,
    /// The account's DID, on atproto servers.
    pub sub: Option<String>,
}

/// The reason why a call of an authorization server failed.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    #[error("the authorization server does not answer: {0}")]
    Net(#[from] NetError),
    /// The response's status, and its error code (RFC 6749 §5.2).
    #[error("the authorization server answered {0} ({1})")]
    Refused(StatusCode, String),
    #[error("the authorization server's response is invalid: {0}")]
    Malformed(&'static str),
}

impl FlowError {
    /// Whether the grant is used up, revoked, or issued to another client, so that no retry helps.
    pub fn is_invalid_grant(&self) -> bool {
        matches!(self, Self::Refused(_, code) if code == "invalid_grant")
    }
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    token_type: String,
    refresh_token: Option<String>,
    expires_in: Option<i64>,
    #[serde(default)]
    scope: String,
    sub: Option<String>,
}

#[derive(Deserialize)]
struct PushedRequestResponse {
    request_uri: String,
}

/// Signs a JWT with which a client authenticates (RFC 7523 §2.2) in one request to `audience`.
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

/// Sends a pushed authorization request (RFC 9126). Returns the `request_uri` for the authorization endpoint.
///
/// # Errors
/// When the server refuses or does not answer.
pub async fn push_request(
    dpop_client: &DpopClient,
    server: &AuthorizationServer,
    client: &ClientCredentials,
    key: &PrivateKey,
    request: &[(&str, &str)],
) -> Result<String, FlowError> {
    let url = &server.pushed_authorization_request_endpoint;
    let fetched = post(dpop_client, server, url, client, key, request).await?;
    let answer: PushedRequestResponse = parse_body(&fetched)?;
    Ok(answer.request_uri)
}

/// Exchanges an authorization code for tokens (RFC 6749 §4.1.3).
///
/// # Errors
/// As [`push_request`].
pub async fn exchange(
    dpop_client: &DpopClient,
    server: &AuthorizationServer,
    client: &ClientCredentials,
    key: &PrivateKey,
    (code, verifier, redirect_uri): (&str, &str, &str),
) -> Result<Tokens, FlowError> {
    let form = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("code_verifier", verifier),
        ("redirect_uri", redirect_uri),
    ];
    parse_tokens(dpop_client, &post(dpop_client, server, &server.token_endpoint, client, key, &form).await?)
}

/// Exchanges a refresh token for new tokens (RFC 6749 §6). The old one may be used up even when this fails.
///
/// # Errors
/// As [`push_request`].
pub async fn refresh(
    dpop_client: &DpopClient,
    server: &AuthorizationServer,
    client: &ClientCredentials,
    key: &PrivateKey,
    refresh_token: &str,
) -> Result<Tokens, FlowError> {
    let form = [("grant_type", "refresh_token"), ("refresh_token", refresh_token)];
    parse_tokens(dpop_client, &post(dpop_client, server, &server.token_endpoint, client, key, &form).await?)
}

/// Revokes a token at its server (RFC 7009). Does nothing for a server without a revocation endpoint.
///
/// # Errors
/// As [`push_request`].
pub async fn revoke(
    dpop_client: &DpopClient,
    server: &AuthorizationServer,
    client: &ClientCredentials,
    key: &PrivateKey,
    token: &str,
) -> Result<(), FlowError> {
    let Some(url) = &server.revocation_endpoint else { return Ok(()) };
    post(dpop_client, server, url, client, key, &[("token", token)]).await.map(drop)
}

async fn post(
    dpop_client: &DpopClient,
    server: &AuthorizationServer,
    url: &str,
    client: &ClientCredentials,
    key: &PrivateKey,
    form: &[(&str, &str)],
) -> Result<FetchedResponse, FlowError> {
    let headers = HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded")),
        (ACCEPT, HeaderValue::from_static("application/json")),
    ]);
    let body = Some(form_body(dpop_client, server, client, form));
    let request = DpopRequest { method: Method::POST, url, headers, body, limits: Limits::DOCUMENT };
    let fetched = dpop_client.send(key, None, &request).await?;
    if fetched.status.is_success() {
        return Ok(fetched);
    }
    // The server chooses the code, which goes into logs and error texts: limit its length, and leave out its free text.
    let code: String = error_code(&fetched.body).chars().take(64).collect();
    Err(FlowError::Refused(fetched.status, code))
}

fn form_body(
    dpop_client: &DpopClient,
    server: &AuthorizationServer,
    client: &ClientCredentials,
    form: &[(&str, &str)],
) -> Bytes {
    let mut body = form_urlencoded::Serializer::new(String::new());
    body.append_pair("client_id", &client.client_id).extend_pairs(form);
    if let Some((kid, client_key)) = &client.key {
        let (random, now) = (dpop_client.random(), dpop_client.clock().now());
        let assertion = assertion(client_key, kid, &client.client_id, &server.issuer, random, now);
        body.append_pair("client_assertion_type", ASSERTION_TYPE);
        body.append_pair("client_assertion", &assertion);
    }
    body.finish().into()
}

fn parse_body<'a, T: Deserialize<'a>>(fetched: &'a FetchedResponse) -> Result<T, FlowError> {
    serde_json::from_slice(&fetched.body)
        .map_err(|_| FlowError::Malformed("it is not JSON, or a field is missing"))
}

fn parse_tokens(dpop_client: &DpopClient, fetched: &FetchedResponse) -> Result<Tokens, FlowError> {
    let answer: TokenResponse = parse_body(fetched)?;
    if !answer.token_type.eq_ignore_ascii_case("dpop") {
        return Err(FlowError::Malformed("the token is not bound to the DPoP key"));
    }
    let now = dpop_client.clock().now();
    Ok(Tokens {
        access_token: Secret::new(answer.access_token),
        refresh_token: answer.refresh_token.map(Secret::new),
        expires_at: answer.expires_in.filter(|seconds| *seconds > 0).map(|seconds| now.plus_seconds(seconds)),
        scope: answer.scope,
        sub: answer.sub,
    })
}
