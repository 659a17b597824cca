//! Sends requests and follows redirects. Each hop is a separate request through the guarded client, so every address is
//! checked before it is connected to. Headers that may hold credentials are not sent to another origin.

use std::time::Instant;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_LANGUAGE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap,
    HeaderName, LOCATION, TRANSFER_ENCODING, USER_AGENT,
};
use http::{Method, StatusCode};
use url::{Origin, Url};

use super::{Client, FetchedResponse, Limits, NetError, parse};

/// Headers that are sent again after a redirect to another origin: content negotiation and descriptions of the body.
/// Every other header may hold a secret meant for the first server (`X-Api-Key`).
const CROSS_ORIGIN_HEADERS: [HeaderName; 6] =
    [ACCEPT, ACCEPT_LANGUAGE, USER_AGENT, CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE];

/// Headers that describe the body; they are removed together with it.
const BODY_HEADERS: [HeaderName; 5] =
    [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, TRANSFER_ENCODING];

impl Client {
    /// Sends a request, follows at most `redirects` redirects (Fetch standard, HTTP-redirect fetch) and reads the whole
    /// response. The time limit covers all hops together, the size limit applies to each hop.
    ///
    /// # Errors
    /// As [`Client::request`], for every hop; [`NetError::Redirects`] after more than `redirects` redirects.
    pub async fn follow(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Option<Bytes>,
        limits: Limits,
        redirects: u8,
    ) -> Result<FetchedResponse, NetError> {
        let mut client = self.clone();
        let each = |_: &Method, _: &Url| {
            // A server chose the URLs after the first, not the operator, so they have no exemption from the guard.
            let redirected = Self { chosen_by: super::ChosenBy::Other, ..client.clone() };
            Ok(std::mem::replace(&mut client, redirected))
        };
        Self::follow_each(method, url, headers, body, limits, redirects, each).await
    }

    /// Like [`Self::follow`], but `each` decides about every hop: it returns the client for the hop, or an error that
    /// ends the exchange.
    ///
    /// # Errors
    /// As [`Self::follow`], and those of `each`.
    pub async fn follow_each(
        mut method: Method,
        url: &str,
        mut headers: HeaderMap,
        mut body: Option<Bytes>,
        limits: Limits,
        redirects: u8,
        mut each: impl FnMut(&Method, &Url) -> Result<Self, NetError>,
    ) -> Result<FetchedResponse, NetError> {
        let started = Instant::now();
        let mut url = parse(url)?;
        for _ in 0..=redirects {
            let remaining = limits.total.checked_sub(started.elapsed()).ok_or(NetError::Timeout)?;
            let hop = Limits { total: remaining, ..limits };
            let client = each(&method, &url)?;
            let fetched =
                client.request(method.clone(), url.as_str(), headers.clone(), body.clone(), hop).await?;
            let Some(next) = redirect_target(&url, &fetched) else { return Ok(fetched) };
            let next = next?;
            if becomes_get(&method, fetched.status) {
                method = Method::GET;
                body = None;
                for name in BODY_HEADERS {
                    headers.remove(name);
                }
            }
            if !is_same_origin(&url.origin(), &next.origin()) {
                headers = cross_origin_headers(&headers);
            }
            url = next;
        }
        Err(NetError::Redirects(redirects))
    }
}

fn cross_origin_headers(headers: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for name in CROSS_ORIGIN_HEADERS {
        for value in headers.get_all(&name) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

/// The URL that a response redirects to; `None` when it is not a redirect.
fn redirect_target(from: &Url, fetched: &FetchedResponse) -> Option<Result<Url, NetError>> {
    if !matches!(fetched.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = fetched.headers.get(LOCATION)?;
    let target = location.to_str().ok().and_then(|text| from.join(text).ok());
    Some(target.ok_or_else(|| NetError::Malformed("the Location of a redirect is no URL".to_owned())))
}

/// Whether the next hop is a GET: after 303 always, after 301 and 302 when the request was a POST, as browsers do it.
fn becomes_get(method: &Method, status: StatusCode) -> bool {
    match status.as_u16() {
        301 | 302 => *method == Method::POST,
        303 => !matches!(*method, Method::GET | Method::HEAD),
        _ => false,
    }
}

/// An opaque origin equals no other.
fn is_same_origin(a: &Origin, b: &Origin) -> bool {
    a.is_tuple() && a == b
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::header::HeaderValue;

    use super::super::OutboundPolicy;
    use belvedere_standins::recorder::recorder;

    use super::super::testing::{loopback, net};
    use super::super::tests::{LIMITS, byte_server, server};
    use super::*;

    const REDIRECTS: u8 = 3;

    fn secret() -> HeaderMap {
        HeaderMap::from_iter(
            [
                ("authorization", "Bearer secret"),
                ("cookie", "a=b"),
                ("x-api-key", "secret"),
                ("atproto-proxy", "did:web:secret.example"),
                ("accept", "text/html"),
                ("accept-language", "fr"),
                ("content-type", "text/plain"),
            ]
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))),
        )
    }

    async fn post(client: &Client, url: &str) -> Result<FetchedResponse, NetError> {
        let body = Some(Bytes::from_static(b"hello"));
        client.follow(Method::POST, url, secret(), body, LIMITS, REDIRECTS).await
    }

    #[tokio::test]
    async fn only_harmless_headers_cross_origins() {
        let (other, there) = recorder(|_| "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi".to_owned()).await;
        let (address, here) = recorder(move |request| {
            let to =
                if request.starts_with("POST /a ") { "/b".to_owned() } else { format!("http://{other}/c") };
            format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
        })
        .await;
        let fetched = post(&loopback(), &format!("http://{address}/a")).await.unwrap();
        assert_eq!((fetched.status, &*fetched.body), (StatusCode::OK, &b"hi"[..]));
        let here = here.lock().unwrap().clone();
        assert_eq!(here.len(), 2);
        for kept in ["authorization: Bearer secret", "cookie: a=b", "x-api-key: secret", "atproto-proxy: "] {
            assert!(here.iter().all(|request| request.contains(kept)), "{kept}");
        }
        assert!(here[1].starts_with("POST /b ") && here[1].ends_with("hello"), "{}", here[1]);
        let there = there.lock().unwrap().clone();
        assert_eq!(there.len(), 1);
        assert!(!there[0].contains("secret") && !there[0].contains("a=b"), "{}", there[0]);
        let mut names: Vec<&str> =
            there[0].lines().skip(1).filter_map(|line| line.split_once(": ")).map(|(name, _)| name).collect();
        names.sort_unstable();
        let expected = [
            "accept",
            "accept-encoding",
            "accept-language",
            "content-length",
            "content-type",
            "host",
            "user-agent",
        ];
        assert_eq!(names, expected);
        assert!(there[0].contains("accept-language: fr") && there[0].contains("content-type: text/plain"));
        assert!(there[0].starts_with("POST /c ") && there[0].ends_with("hello"), "{}", there[0]);
    }

    #[tokio::test]
    async fn a_post_becomes_a_get_without_its_body() {
        for status in ["301 Moved", "302 Found", "303 See Other"] {
            let (address, seen) = recorder(move |request| {
                if request.starts_with("POST") {
                    format!("HTTP/1.1 {status}\r\nlocation: /next\r\ncontent-length: 0\r\n\r\n")
                } else {
                    "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned()
                }
            })
            .await;
            post(&loopback(), &format!("http://{address}/")).await.unwrap();
            let seen = seen.lock().unwrap().clone();
            assert!(seen[1].starts_with("GET /next ") && !seen[1].contains("content-type"), "{}", seen[1]);
            assert!(!seen[1].ends_with("hello"), "{}", seen[1]);
        }
    }

    #[tokio::test]
    async fn every_hop_is_guarded() {
        for location in [
            "http://169.254.169.254/latest/meta-data",
            "http://10.0.0.1/",
            "https://[::ffff:10.0.0.1]/",
            "http://0xa9fea9fe/",
            "//192.168.1.1/",
            "file:///etc/passwd",
            "ftp://example.com/",
            "http://user:pw@127.0.0.1/",
        ] {
            let (address, _) = recorder(move |_| {
                format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n")
            })
            .await;
            let error = post(&loopback(), &format!("http://{address}/")).await.unwrap_err();
            assert!(matches!(error, NetError::Refused(_)), "{location}: {error}");
        }
        // A redirect from a trusted URL to loopback is refused.
        let (address, seen) =
            recorder(|_| "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\n\r\n".to_owned()).await;
        let trusted = vec![Url::parse(&format!("http://{address}/")).unwrap()];
        let configured = net(OutboundPolicy { trusted, ..OutboundPolicy::default() });
        let error = post(&configured.trusted(), &format!("http://{address}/")).await.unwrap_err();
        assert!(matches!(error, NetError::Refused(_)), "{error}");
        assert_eq!(seen.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn redirect_loops_end_and_bad_targets_are_errors() {
        let (address, seen) =
            recorder(|_| "HTTP/1.1 302 Found\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n".to_owned())
                .await;
        let url = format!("http://{address}/");
        assert!(matches!(post(&loopback(), &url).await, Err(NetError::Redirects(REDIRECTS))));
        assert_eq!(seen.lock().unwrap().len(), usize::from(REDIRECTS) + 1);
        let (address, _) =
            server(&["HTTP/1.1 302 Found\r\nlocation: http://[\r\ncontent-length: 0\r\n\r\n"]).await;
        let error = post(&loopback(), &format!("http://{address}/")).await.unwrap_err();
        assert!(matches!(error, NetError::Malformed(_)), "{error}");
        let (address, _) = server(&["HTTP/1.1 302 Found\r\ncontent-length: 2\r\n\r\nno"]).await;
        let bare = post(&loopback(), &format!("http://{address}/")).await.unwrap();
        assert_eq!(bare.status, StatusCode::FOUND, "a redirect without Location is returned as it is");
    }

    #[tokio::test]
    async fn the_time_limit_covers_all_hops() {
        let (address, _) = recorder(|request| {
            let slow = if request.starts_with("POST") { "" } else { "(hang)" };
            format!(
                "HTTP/1.1 302 Found\r\nlocation: /{slow}\r\ncontent-length: {}\r\n\r\n{slow}",
                slow.len() * 2
            )
        })
        .await;
        let limits = Limits { total: Duration::from_millis(300), ..LIMITS };
        let url = format!("http://{address}/");
        let ended = loopback().follow(Method::POST, &url, HeaderMap::new(), None, limits, REDIRECTS).await;
        assert!(matches!(ended, Err(NetError::Timeout)), "{ended:?}");
    }

    #[tokio::test]
    async fn the_size_limit_applies_after_decompression() {
        // 10 MiB of zeros in 66 KB.
        let packed = gzip_of_zeros(10 << 20);
        assert!(packed.len() < 70_000, "{}", packed.len());
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", packed.len());
        let whole: &'static [u8] = Box::leak([head.as_bytes(), &packed].concat().into_boxed_slice());
        let (address, _) = byte_server(whole).await;
        let limits = Limits { max_bytes: 100_000, total: Duration::from_secs(10) };
        let url = format!("http://{address}/");
        let answer = loopback().follow(Method::GET, &url, HeaderMap::new(), None, limits, REDIRECTS).await;
        assert!(matches!(answer, Err(NetError::TooLarge(100_000))), "{answer:?}");
    }

    /// A gzip stream of `n` zeros: fixed-Huffman blocks of matches with length 258 and distance 1.
    fn gzip_of_zeros(n: usize) -> Vec<u8> {
        let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
        let (mut bits, mut count) = (0u64, 0u32);
        let mut put = |value: u64, width: u32, out: &mut Vec<u8>| {
            bits |= value << count;
            count += width;
            while count >= 8 {
                out.push(bits as u8);
                bits >>= 8;
                count -= 8;
            }
        };
        put(0b011, 3, &mut out); // last block, fixed codes
        put(0x0c, 8, &mut out); // literal 0: code 00110000, most significant bit first
        for _ in 0..n / 258 {
            put(0b1010_0011, 8, &mut out); // length 258: symbol 285, code 11000101 reversed
            put(0, 5, &mut out); // distance 1
        }
        put(0, 7, &mut out); // end of block
        put(0, 7, &mut out); // to the next byte
        // The checksum is never read: the size limit is reached before it.
        out.extend_from_slice(&[0; 8]);
        out
    }
}
