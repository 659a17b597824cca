//! The upgrade of a request to a WebSocket (RFC 6455, section 4.2).

use std::time::Duration;

use data_encoding::BASE64;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::{HeaderValue, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::socket::{Gone, Socket};
use crate::http::{Body, Error, Request, Response};

/// Limit for the end of the upgrade: the response has been written by then.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection after its response was written.
#[derive(Debug)]
pub struct Upgrade(OnUpgrade);

/// The subprotocols that a client offers, in its order of preference.
pub fn offered_protocols(request: &Request) -> impl Iterator<Item = &str> {
    let headers = request.headers().get_all(SEC_WEBSOCKET_PROTOCOL).into_iter();
    headers.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).map(str::trim)
}

/// Tells the client which of its subprotocols is used.
pub fn choose_protocol(response: &mut Response, token: &'static str) {
    response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(token));
}

/// Whether a request asks for a WebSocket.
pub fn is_upgrade(request: &Request) -> bool {
    request.header("upgrade").is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
}

/// Reads the handshake of a request. The response belongs to the returned upgrade.
///
/// # Errors
/// 426 when the request is none for a WebSocket, 400 when its handshake is malformed.
pub fn accept(request: &mut Request) -> Result<(Response, Upgrade), Error> {
    let is_upgrade = is_upgrade(request);
    let Some(upgrade) = request.head.extensions.remove::<OnUpgrade>().filter(|_| is_upgrade) else {
        let error = Error::new(StatusCode::UPGRADE_REQUIRED, "connect with a WebSocket, over HTTP/1.1");
        return Err(error.with_header(UPGRADE, HeaderValue::from_static("websocket")));
    };
    if request.header(SEC_WEBSOCKET_VERSION.as_str()) != Some("13") {
        return Err(Error::bad_request("sec-websocket-version must be 13"));
    }
    let key = request.headers().get(SEC_WEBSOCKET_KEY);
    let key = key.filter(|key| BASE64.decode(key.as_bytes()).is_ok_and(|nonce| nonce.len() == 16));
    let key = key.ok_or_else(|| Error::bad_request("sec-websocket-key must be 16 bytes in base64"))?;
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(Error::internal)?;
    let mut response = Response::new(Body::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    Ok((response, Upgrade(upgrade)))
}

impl Upgrade {
    /// Waits until the response has been written.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn socket(self) -> Result<Socket, Gone> {
        let upgraded = timeout(UPGRADE_TIMEOUT, self.0).await.map_err(|_| Gone)?.map_err(|_| Gone)?;
        Ok(Socket::over(TokioIo::new(upgraded)).await)
    }
}
