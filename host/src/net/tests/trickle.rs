use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A server that announces a long body, and sends as much of it as the test wants.
pub(crate) struct Trickle {
    address: SocketAddr,
    requests: mpsc::Receiver<TcpStream>,
    stream: Option<TcpStream>,
}

impl Trickle {
    pub(crate) async fn start(announced: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
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

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the next request.
    pub(crate) async fn requested(&mut self) {
        self.stream = self.requests.recv().await;
    }

    /// Sends so many bytes of the body.
    pub(crate) async fn send(&mut self, bytes: usize) {
        self.stream.as_mut().unwrap().write_all(&vec![b'x'; bytes]).await.unwrap();
    }

    /// Closes the connection.
    pub(crate) fn end(&mut self) {
        self.stream = None;
    }
}
