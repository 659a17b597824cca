//! A server that answers with raw text and records what it was sent.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Answers every connection's request with what `answer` returns for its text, and records the texts. After an answer
/// that contains `(hang)` the connection stays open.
pub async fn recorder(
    answer: impl Fn(&str) -> String + Send + Sync + 'static,
) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    (address, recorder_on(listener, answer))
}

/// The same on a socket that has not accepted a connection before.
pub fn recorder_on(
    listener: TcpListener,
    answer: impl Fn(&str) -> String + Send + Sync + 'static,
) -> Arc<Mutex<Vec<String>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&seen);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("the listener accepts");
            let mut request = vec![0; 8192];
            let mut length = 0;
            // The head, and as much body as its content-length says.
            loop {
                let text = String::from_utf8_lossy(&request[..length]).into_owned();
                if let Some((head, body)) = text.split_once("\r\n\r\n") {
                    let expected = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    if body.len() >= expected.map_or(0, |n| n.parse().expect("it is a number")) {
                        break;
                    }
                }
                let read = stream.read(&mut request[length..]).await.expect("the connection can be read");
                length += read;
                if read == 0 {
                    break;
                }
            }
            let text = String::from_utf8_lossy(&request[..length]).into_owned();
            let answer = answer(&text);
            keep.lock().expect("no test panics with it").push(text);
            let _ =
                stream.write_all(answer.replacen("\r\n", "\r\nconnection: close\r\n", 1).as_bytes()).await;
            if answer.contains("(hang)") {
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_mins(1)).await;
                    drop(stream);
                });
            }
        }
    });
    seen
}
