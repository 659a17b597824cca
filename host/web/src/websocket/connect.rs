//! Opens WebSocket connections.

use std::future::Future;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::{SEC_WEBSOCKET_PROTOCOL, USER_AGENT};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use url::Url;

use crate::net;

/// Read buffer of the socket, in bytes: about 150 frames per system call. The library zeroes it before each read, so a
/// larger one is not faster.
const READ_BUFFER: usize = 64 * 1024;

/// Opens a connection: over TCP and TLS, or in memory in tests.
pub trait Connect: Send + 'static {
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn connect(&self, url: &Url) -> impl Future<Output = Result<WebSocketStream<Self::Io>, Error>> + Send;
}

/// Connects over TCP and TLS to a server that the operator configured. TLS needs the process's default rustls provider,
/// which `main` installs.
#[derive(Clone, Debug)]
pub struct Direct {
    /// Largest message accepted, in bytes.
    pub max_message_bytes: usize,
    /// The subprotocol that is offered.
    pub protocol: Option<&'static str>,
}

impl Connect for Direct {
    type Io = MaybeTlsStream<TcpStream>;

    async fn connect(&self, url: &Url) -> Result<WebSocketStream<Self::Io>, Error> {
        let config = Some(config(self.max_message_bytes));
        let mut request = request(url)?;
        if let Some(protocol) = self.protocol {
            request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
        }
        let (socket, _) = tokio_tungstenite::connect_async_with_config(request, config, true).await?;
        Ok(socket)
    }
}

/// Like [`Direct`], to a server that a DID document names: only to addresses that the outbound policy permits.
#[derive(Clone, Debug)]
pub struct Guarded {
    pub net: net::Client,
    /// Largest message accepted, in bytes.
    pub max_message_bytes: usize,
}

impl Connect for Guarded {
    type Io = MaybeTlsStream<TcpStream>;

    async fn connect(&self, url: &Url) -> Result<WebSocketStream<Self::Io>, Error> {
        let request = request(url)?;
        let stream = self.net.connect(url).await.map_err(|error| Error::Io(io::Error::other(error)))?;
        let config = Some(config(self.max_message_bytes));
        let (socket, _) =
            tokio_tungstenite::client_async_tls_with_config(request, stream, config, None).await?;
        Ok(socket)
    }
}

fn request(url: &Url) -> Result<Request, Error> {
    let mut request = url.as_str().into_client_request()?;
    request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(net::USER_AGENT));
    Ok(request)
}

/// Bytes that wait for a peer that does not read them.
const MAX_WRITE_BUFFER: usize = 64 << 10;

/// Bounds what waits for the peer: every ping is answered, also of one that does not read the answers.
pub(crate) fn bounded_writes(config: WebSocketConfig) -> WebSocketConfig {
    config.write_buffer_size(MAX_WRITE_BUFFER / 4).max_write_buffer_size(MAX_WRITE_BUFFER)
}

fn config(max_message_bytes: usize) -> WebSocketConfig {
    bounded_writes(WebSocketConfig::default())
        .read_buffer_size(READ_BUFFER)
        .max_message_size(Some(max_message_bytes))
        .max_frame_size(Some(max_message_bytes))
}
