use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use http::{Method, StatusCode};
use proptest::prelude::*;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

use super::socket::{MAX_FRAMES, MAX_SENT};
use super::{Gone, Socket, accept};
use crate::http::limits;
use crate::http::router::Handler;
use crate::http::server::tests::{Running, start_with_tick};

/// A server that sends a message, and another one if the client is there after a while.
fn start() -> Running {
    let handler: Handler = Box::new(|mut request, _| {
        Box::pin(async move {
            let (response, upgrade) = accept(&mut request)?;
            tokio::spawn(async move {
                let mut socket = upgrade.socket().await.unwrap();
                socket.send(b"first".to_vec()).await.unwrap();
                let pause = tokio::time::sleep(Duration::from_millis(100));
                if socket.wait_for(pause).await.is_ok() {
                    socket.send(b"second".to_vec()).await.unwrap();
                    socket.close("that was all").await;
                }
            });
            Ok(response)
        })
    });
    start_with_tick(vec![(Method::GET, "/socket", handler)], limits::TICK)
}

#[tokio::test]
async fn messages_and_the_end_arrive() {
    let running = start();
    let stream = TcpStream::connect(running.address).await.unwrap();
    let (mut client, response) = client_async("ws://test/socket", stream).await.unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    client.send(Message::Ping(Bytes::from_static(b"there?"))).await.unwrap();
    let mut received = Vec::new();
    while let Some(Ok(message)) = client.next().await {
        received.push(message);
    }
    let texts: Vec<_> = received.iter().filter(|m| m.is_binary()).map(|m| m.clone().into_data()).collect();
    assert_eq!(texts, [Bytes::from_static(b"first"), Bytes::from_static(b"second")]);
    assert!(received.iter().any(Message::is_pong) && received.iter().any(Message::is_close));
}

#[tokio::test]
async fn a_client_that_only_pings_is_disconnected() {
    let running = start();
    let stream = TcpStream::connect(running.address).await.unwrap();
    let (mut client, _) = client_async("ws://test/socket", stream).await.unwrap();
    for _ in 0..=MAX_FRAMES {
        client.feed(Message::Ping(Bytes::new())).await.unwrap();
    }
    client.flush().await.unwrap();
    let mut received = Vec::new();
    while let Some(Ok(message)) = client.next().await {
        received.push(message);
    }
    assert!(!received.contains(&Message::Binary(Bytes::from_static(b"second"))), "{received:?}");
}

/// A message that the bound of unsent bytes has no room for ends the connection, whether the client reads or not.
#[tokio::test]
async fn unsent_bytes_are_bounded() {
    let (results, mut sent) = tokio::sync::mpsc::unbounded_channel();
    let handler: Handler = Box::new(move |mut request, _| {
        let results = results.clone();
        Box::pin(async move {
            let (response, upgrade) = accept(&mut request)?;
            tokio::spawn(async move {
                let mut socket = upgrade.socket().await.unwrap();
                for size in [MAX_SENT - (4 << 10), MAX_SENT + 1] {
                    results.send(socket.send(vec![7; size]).await).unwrap();
                }
            });
            Ok(response)
        })
    });
    let running = start_with_tick(vec![(Method::GET, "/socket", handler)], limits::TICK);
    let stream = TcpStream::connect(running.address).await.unwrap();
    let (mut client, _) = client_async("ws://test/socket", stream).await.unwrap();
    assert_eq!(client.next().await.unwrap().unwrap().into_data().len(), MAX_SENT - (4 << 10));
    assert_eq!((sent.recv().await, sent.recv().await), (Some(Ok(())), Some(Err(Gone))));
    assert!(client.next().await.is_none_or(|message| message.is_err()));
}

proptest! {
    /// The same as the fuzz target `websocket`.
    #[test]
    fn whatever_a_client_sends_ends_the_connection(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (mut client, server) = tokio::io::duplex(64 << 10);
            client.write_all(&bytes).await.unwrap();
            client.shutdown().await.unwrap();
            let mut socket = Socket::over(server).await;
            assert_eq!(socket.wait_for(std::future::pending::<()>()).await, Err(Gone));
        });
    }
}

#[tokio::test]
async fn a_close_is_answered() {
    let running = start();
    let stream = TcpStream::connect(running.address).await.unwrap();
    let (mut client, _) = client_async("ws://test/socket", stream).await.unwrap();
    client.close(None).await.unwrap();
    let mut last = None;
    while let Some(Ok(message)) = client.next().await {
        last = Some(message);
    }
    assert!(last.is_some_and(|message| message.is_close()));
}

#[tokio::test]
async fn other_requests_are_refused() {
    use tokio::io::AsyncReadExt as _;

    let running = start();
    for (headers, status) in [
        ("", "426"),
        ("connection: upgrade\r\nupgrade: websocket\r\n", "400"),
        ("connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n", "400"),
        (
            "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: x\r\n",
            "400",
        ),
    ] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let head = format!("GET /socket HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {status}"), "{headers}");
    }
}
