//! A client of a WebSocket, for tests of servers.

use std::net::{Ipv4Addr, SocketAddr};

use futures_util::{SinkExt as _, StreamExt as _};
use http::StatusCode;
use serde_json::Value;
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
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
        Self::connect_from(Ipv4Addr::UNSPECIFIED, address, path, headers).await
    }

    /// Like [`Self::connect`], from an address of this machine.
    ///
    /// # Panics
    /// When the server does not respond.
    pub async fn connect_from(
        from: Ipv4Addr,
        address: SocketAddr,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, StatusCode> {
        let connected = Self::try_connect(from, address, path, headers).await;
        connected.map_err(|refused| refused.expect("the server responds"))
    }

    /// Like [`Self::connect_from`]; the error is `None` when the server does not respond.
    ///
    /// # Panics
    /// When there are no more ports or files.
    pub async fn try_connect(
        from: Ipv4Addr,
        address: SocketAddr,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, Option<StatusCode>> {
        let mut request = format!("ws://{address}{path}").into_client_request().expect("a URL");
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().expect("a header"));
        }
        let socket = TcpSocket::new_v4().expect("a socket: raise ulimit -n");
        if !from.is_unspecified() {
            socket.bind(SocketAddr::from((from, 0))).expect("a free port");
        }
        let stream: TcpStream = socket.connect(address).await.map_err(|_| None)?;
        match client_async(request, stream).await {
            Ok((stream, response)) => {
                let protocol = response.headers().get("sec-websocket-protocol");
                let protocol = protocol.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
                Ok(Self { stream, protocol })
            }
            Err(Error::Http(response)) => Err(Some(response.status())),
            Err(_) => Err(None),
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

    /// Waits for the text of the next message; `None` at the end.
    pub async fn receive_text(&mut self) -> Option<Utf8Bytes> {
        loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => return Some(text),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => return None,
            }
        }
    }

    /// Sends a message.
    pub async fn send(&mut self, text: &str) {
        // An error means that the server has ended the connection.
        let _ = self.stream.send(Message::text(text)).await;
    }
}
