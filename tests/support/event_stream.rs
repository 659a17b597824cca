//! Reads server-sent events.

use std::time::Duration;

use belvedere_standins::http_client;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;

use super::instance::Instance;

/// Maximum time for a message: generous, since all tests share two cores.
const TIMEOUT: Duration = Duration::from_mins(1);

/// An open stream.
pub struct EventStream {
    pub headers: HeaderMap,
    body: Incoming,
    text: String,
}

/// Opens a stream with the operator's key, or returns the status of the refusal.
pub async fn open(server: &Instance, path: &str) -> Result<EventStream, StatusCode> {
    open_with(server, &server.admin_key, path).await
}

/// Like [`open`], with another key.
pub async fn open_with(server: &Instance, key: &str, path: &str) -> Result<EventStream, StatusCode> {
    open_as(server, ("authorization", &format!("Bearer {key}")), path).await
}

/// Like [`open`], with the header that authenticates the caller.
pub async fn open_as(
    server: &Instance,
    (name, value): (&str, &str),
    path: &str,
) -> Result<EventStream, StatusCode> {
    let request = Request::get(path).header("host", server.address.to_string()).header(name, value);
    let request = request.body(Full::<Bytes>::default()).expect("a request");
    let mut sender = http_client::connect(server.address).await.expect("the server listens");
    let answer = sender.send_request(request).await.expect("the server responds");
    let (head, body) = answer.into_parts();
    if head.status == StatusCode::OK {
        Ok(EventStream { headers: head.headers, body, text: String::new() })
    } else {
        Err(head.status)
    }
}

impl EventStream {
    /// The lines of the first message, which may be a comment.
    pub async fn first(&mut self) -> String {
        self.message().await.expect("a message")
    }

    /// The lines of the next message that is not a comment; `None` after the last.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            let message = self.message().await?;
            if !message.starts_with(':') {
                return Some(message);
            }
        }
    }

    async fn message(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                return Some(self.text.drain(..end + 2).collect());
            }
            let frame = tokio::time::timeout(TIMEOUT, self.body.frame()).await.expect("a message in time")?;
            let frame = frame.expect("the connection stays open");
            self.text.push_str(std::str::from_utf8(frame.data_ref().expect("data")).expect("UTF-8"));
        }
    }
}
