//! Opens WebSocket connections.

use std::future::Future;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::USER_AGENT;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use url::Url;

use super::MAX_MESSAGE_BYTES;

/// Read buffer of the socket, in bytes: about 150 frames per system call. The library zeroes it before each read, so a
/// larger one is not faster.
const READ_BUFFER: usize = 64 * 1024;

/// Opens a connection: over TCP and TLS, or in memory in tests.
pub(in crate::indexing) trait Connect: Send + 'static {
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn connect(&self, url: &Url) -> impl Future<Output = Result<WebSocketStream<Self::Io>, Error>> + Send;
}

/// Connects over TCP and TLS. TLS needs the process's default rustls provider, which `main` installs.
#[derive(Clone, Debug)]
pub(in crate::indexing) struct Network;

impl Connect for Network {
    type Io = MaybeTlsStream<TcpStream>;

    async fn connect(&self, url: &Url) -> Result<WebSocketStream<Self::Io>, Error> {
        let mut request = url.as_str().into_client_request()?;
        let agent = HeaderValue::from_static(concat!("belvedere/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(USER_AGENT, agent);
        let (socket, _) = tokio_tungstenite::connect_async_with_config(request, Some(config()), true).await?;
        Ok(socket)
    }
}

pub(super) fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES))
}
