//! Sends one HTTP/1.1 request over a new connection.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Opens a connection, which is driven by a background task.
pub async fn connect(address: SocketAddr) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Sends one request. A body is sent as JSON unless `headers` has another content type.
pub async fn send(
    address: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<String>,
) -> anyhow::Result<(StatusCode, HeaderMap, Bytes)> {
    let named = |name: &str| headers.iter().any(|(known, _)| *known == name);
    let mut request = Request::builder().method(method).uri(path);
    if !named("host") {
        request = request.header("host", address.to_string());
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if body.is_some() && !named("content-type") {
        request = request.header("content-type", "application/json");
    }
    let body = Full::new(body.map(Bytes::from).unwrap_or_default());
    let response = connect(address).await?.send_request(request.body(body)?).await?;
    let (head, body) = response.into_parts();
    Ok((head.status, head.headers, body.collect().await?.to_bytes()))
}
