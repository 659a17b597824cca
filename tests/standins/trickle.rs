//! A server that sends a body at the pace of a test.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A server that announces a long body, and sends as much of it as the test wants.
#[derive(Debug)]
pub struct Trickle {
    address: SocketAddr,
    requests: mpsc::Receiver<TcpStream>,
    stream: Option<TcpStream>,
}

impl Trickle {
    /// Announces so many bytes for each response.
    pub async fn start(announced: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let (arrived, requests) = mpsc::channel(8);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {announced}\r\n\r\n");
                let _ = stream.write_all(head.as_bytes()).await;
                let _ = arrived.send(stream).await;
            }
        });
        Self { address, requests, stream: None }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the next request.
    pub async fn requested(&mut self) {
        self.stream = self.requests.recv().await;
    }

    /// Sends so many bytes of the body.
    pub async fn send(&mut self, bytes: usize) {
        let stream = self.stream.as_mut().expect("a request has arrived");
        stream.write_all(&vec![b'x'; bytes]).await.expect("the connection is open");
    }

    /// Closes the connection.
    pub fn end(&mut self) {
        self.stream = None;
    }
}
