//! A client of a WebSocket, for tests of servers.

use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use http::StatusCode;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

/// A connection.
#[derive(Debug)]
pub struct WebSocket {
    stream: WebSocketStream<TcpStream>,
    /// The subprotocol that the server has chosen.
    pub protocol: Option<String>,
}

/// A message of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    Json(Value),
    Bytes(Vec<u8>),
    /// The code and the reason of the end.
    Closed(u16, String),
    /// The connection ended without a reason.
    Lost,
}

impl WebSocket {
    /// Connects, or returns the status of a response that refuses the WebSocket.
    ///
    /// # Panics
    /// When the server does not respond.
    pub async fn connect(
        address: SocketAddr,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, StatusCode> {
        let mut request = format!("ws://{address}{path}").into_client_request().expect("a URL");
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().expect("a header"));
        }
        let stream = TcpStream::connect(address).await.expect("the server listens");
        match client_async(request, stream).await {
            Ok((stream, response)) => {
                let protocol = response.headers().get("sec-websocket-protocol");
                let protocol = protocol.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
                Ok(Self { stream, protocol })
            }
            Err(Error::Http(response)) => Err(response.status()),
            Err(error) => panic!("the handshake fails: {error}"),
        }
    }

    /// Waits for the next message.
    pub async fn receive(&mut self) -> Received {
        loop {
            return match self.stream.next().await {
                Some(Ok(Message::Text(text))) => {
                    Received::Json(serde_json::from_str(&text).expect("the text is JSON"))
                }
                Some(Ok(Message::Binary(bytes))) => Received::Bytes(bytes.to_vec()),
                Some(Ok(Message::Close(Some(frame)))) => {
                    Received::Closed(frame.code.into(), frame.reason.to_string())
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
                Some(Ok(Message::Close(None)) | Err(_)) | None => Received::Lost,
            };
        }
    }

    /// Sends a message.
    pub async fn send(&mut self, text: &str) {
        // An error means that the server has ended the connection.
        let _ = self.stream.send(Message::text(text)).await;
    }
}
