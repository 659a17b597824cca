//! An HTTP server of files, which also misbehaves as servers of downloads do.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// The content at a path.
#[derive(Clone, Debug)]
pub enum File {
    Whole(Vec<u8>),
    /// The connection breaks after half of the announced bytes.
    Truncated(Vec<u8>),
    /// Zeros without an announced length, until the client has enough.
    Endless,
    /// Announces a length in bytes and sends none of them.
    Announced(u64),
    /// Sends nothing, for as long as the client waits.
    Silent,
    Redirect(String),
}

/// The running server. A path without a file is a 404.
#[derive(Clone, Debug)]
pub struct FileServer {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    files: HashMap<String, File>,
    requested: Vec<String>,
    sent: u64,
}

impl FileServer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let server = Self { address, state: Arc::default() };
        let this = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let this = this.clone();
                // An error means that the client has closed the connection.
                tokio::spawn(async move { this.answer(stream).await.ok() });
            }
        });
        server
    }

    /// The URL of a path that begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn put(&self, path: &str, file: File) {
        self.with(|state| state.files.insert(path.to_owned(), file));
    }

    pub fn remove(&self, path: &str) {
        self.with(|state| state.files.remove(path));
    }

    /// The paths that were requested so far, in order, without queries.
    pub fn requested(&self) -> Vec<String> {
        self.with(|state| state.requested.clone())
    }

    /// Bytes of bodies that clients took so far.
    pub fn sent(&self) -> u64 {
        self.with(|state| state.sent)
    }

    fn with<T>(&self, run: impl FnOnce(&mut State) -> T) -> T {
        run(&mut self.state.lock().expect("no test panics here"))
    }

    async fn answer(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut first = String::new();
        stream.read_line(&mut first).await?;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            if line.trim().is_empty() {
                break;
            }
        }
        let path = first.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default();
        let file = self.with(|state| {
            state.requested.push(path.to_owned());
            state.files.get(path).cloned()
        });
        let head =
            |status: &str, more: &str| format!("HTTP/1.1 {status}\r\nconnection: close\r\n{more}\r\n\r\n");
        let length = |bytes: u64| format!("content-length: {bytes}");
        match file {
            None => stream.write_all(head("404 Not Found", &length(0)).as_bytes()).await?,
            Some(File::Redirect(to)) => {
                let more = format!("content-length: 0\r\nlocation: {to}");
                stream.write_all(head("302 Found", &more).as_bytes()).await?;
            }
            Some(File::Whole(body)) => {
                stream.write_all(head("200 OK", &length(body.len() as u64)).as_bytes()).await?;
                self.send(&mut stream, &body).await?;
            }
            Some(File::Truncated(body)) => {
                stream.write_all(head("200 OK", &length(body.len() as u64)).as_bytes()).await?;
                self.send(&mut stream, &body[..body.len() / 2]).await?;
            }
            Some(File::Announced(bytes)) => {
                stream.write_all(head("200 OK", &length(bytes)).as_bytes()).await?;
            }
            Some(File::Endless) => {
                stream.write_all(head("200 OK", "x-endless: yes").as_bytes()).await?;
                let zeros = vec![0; 1 << 16];
                loop {
                    self.send(&mut stream, &zeros).await?;
                }
            }
            Some(File::Silent) => std::future::pending().await,
        }
        stream.shutdown().await
    }

    async fn send(&self, stream: &mut BufReader<TcpStream>, bytes: &[u8]) -> std::io::Result<()> {
        stream.write_all(bytes).await?;
        self.with(|state| state.sent += bytes.len() as u64);
        Ok(())
    }
}
