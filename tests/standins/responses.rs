//! The responses of the stand-ins for PDSs, right and broken.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http::Response;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;

use crate::repos::{Query, uri};

pub(crate) type Body = BoxBody<Bytes, io::Error>;

/// The time between two bytes of a response that drips.
const DRIP: Duration = Duration::from_millis(200);

pub(crate) fn respond(status: u16, headers: &[(&'static str, String)], body: Bytes) -> Response<Body> {
    let mut response = Response::builder().status(status).header("content-type", "application/json");
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    response.body(Full::new(body).map_err(|never| match never {}).boxed()).expect("a response")
}

/// A response whose connection breaks after half of the body.
pub(crate) fn broken(body: &Bytes) -> Response<Body> {
    let frames = [Ok(Frame::data(body.slice(..body.len() / 2))), Err(io::Error::other("broken by the test"))];
    Response::new(BoxBody::new(StreamBody::new(stream::iter(frames))))
}

/// A response that never ends, a byte at a time.
pub(crate) fn dripping() -> Response<Body> {
    let drops = stream::repeat(()).then(|()| async {
        tokio::time::sleep(DRIP).await;
        Ok(Frame::data(Bytes::from_static(b" ")))
    });
    Response::new(BoxBody::new(StreamBody::new(Box::pin(drops))))
}

/// A CAR of a gigabyte, in blocks of zeros. Only what the client takes is made; `sent` counts its bytes.
pub(crate) fn gigabyte(mut sent: impl FnMut(usize) + Send + Sync + 'static) -> Response<Body> {
    let part = Bytes::from(crate::cars::zeros(1 << 20));
    let frames = stream::iter(0..1024).map(move |_| {
        sent(part.len());
        Ok(Frame::data(part.clone()))
    });
    Response::new(BoxBody::new(StreamBody::new(frames)))
}

/// A page of records whose values are given as text, which need not be JSON that a parser could write.
pub(crate) fn page_of(query: &Query, values: &[(&'static str, String)]) -> String {
    let Query { did, collection, .. } = query;
    let cid = crate::frames::cid_of(&serde_json::json!({}));
    let mut text = "{\"records\":[".to_owned();
    for (n, (rkey, value)) in values.iter().enumerate() {
        let comma = if n > 0 { "," } else { "" };
        let uri = uri(did, collection, rkey);
        let _ = write!(text, "{comma}{{\"uri\":\"{uri}\",\"cid\":\"{cid}\",\"value\":{value}}}");
    }
    text + "]}"
}
