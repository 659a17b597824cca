mod trickle;

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use hickory_resolver::proto::op::{Message, MessageType, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, TXT};
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

use super::*;

pub(crate) use trickle::Trickle;

pub(crate) const LIMITS: Limits = Limits { max_bytes: 1000, total: Duration::from_millis(500) };

/// Answers each connection's first request with the next of `answers`, and closes it unless the answer contains
/// `(hang)`. Returns the address and a count of connections.
pub(crate) async fn server(answers: &'static [&'static str]) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answer = answers[counted.fetch_add(1, Ordering::SeqCst) % answers.len()];
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
                if !answer.contains("(hang)") {
                    return;
                }
                tokio::time::sleep(Duration::from_mins(1)).await;
            });
        }
    });
    (address, count)
}

/// Answers every connection's request with what `answer` returns for its text, and records the texts. After an answer
/// that contains `(hang)` the connection stays open.
pub(crate) async fn recorder(
    answer: impl Fn(&str) -> String + Send + Sync + 'static,
) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&seen);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 8192];
            let mut length = 0;
            // The head, and as much body as its content-length says.
            loop {
                let text = String::from_utf8_lossy(&request[..length]).into_owned();
                if let Some((head, body)) = text.split_once("\r\n\r\n") {
                    let expected = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    if body.len() >= expected.map_or(0, |n| n.parse().unwrap()) {
                        break;
                    }
                }
                let read = stream.read(&mut request[length..]).await.unwrap();
                length += read;
                if read == 0 {
                    break;
                }
            }
            let text = String::from_utf8_lossy(&request[..length]).into_owned();
            let answer = answer(&text);
            keep.lock().unwrap().push(text);
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
    (address, seen)
}

/// Answers every connection with the same bytes.
pub(crate) async fn byte_server(answer: &'static [u8]) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer).await;
        }
    });
    (address, count)
}

/// A name server: `*.inside.test` is loopback, `*.mixed.test` is loopback and a private address, `flip.test` is
/// loopback at first and then a private address, `txt.test` has TXT records, and no other name exists.
async fn name_server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut packet = [0; 1500];
        let mut flips = 0u32;
        while let Ok((len, from)) = socket.recv_from(&mut packet).await {
            let mut message = Message::from_vec(&packet[..len]).unwrap();
            let query = message.queries[0].clone();
            let name = query.name().to_ascii().to_ascii_lowercase();
            let data: Vec<RData> = match query.query_type() {
                RecordType::A if name.ends_with("inside.test.") => vec![RData::A(A::new(127, 0, 0, 1))],
                RecordType::A if name.ends_with("mixed.test.") => {
                    vec![RData::A(A::new(10, 0, 0, 1)), RData::A(A::new(127, 0, 0, 1))]
                }
                RecordType::A if name == "flip.test." => {
                    flips += 1;
                    vec![RData::A(if flips == 1 { A::new(127, 0, 0, 1) } else { A::new(10, 0, 0, 1) })]
                }
                RecordType::TXT if name == "txt.test." => vec![
                    RData::TXT(TXT::new(vec!["did=did:plc:".to_owned(), "abc".to_owned()])),
                    RData::TXT(TXT::new(vec!["other".to_owned()])),
                ],
                _ => Vec::new(),
            };
            message.metadata.message_type = MessageType::Response;
            let code = if data.is_empty() { ResponseCode::NXDomain } else { ResponseCode::NoError };
            message.metadata.response_code = code;
            for rdata in data {
                let ttl = if name == "flip.test." { 0 } else { 60 };
                message.add_answer(Record::from_rdata(query.name().clone(), ttl, rdata));
            }
            let _ = socket.send_to(&message.to_vec().unwrap(), from).await;
        }
    });
    address
}

pub(crate) fn net(policy: OutboundPolicy) -> Client {
    install_tls_provider();
    Client::new(policy).unwrap()
}

pub(crate) fn loopback() -> Client {
    net(OutboundPolicy { allow_loopback: true, ..OutboundPolicy::default() })
}

#[tokio::test]
async fn reads_answers_of_any_status_and_follows_no_redirect() {
    let (address, count) = server(&[
        "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{\"a\":1}",
        "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnope",
    ])
    .await;
    let (net, url) = (loopback(), format!("http://{address}/x"));
    assert_eq!(net.get_json::<Value>(&url, 100).await.unwrap(), json!({"a": 1}));
    let redirect = net.get(&url, LIMITS).await.unwrap();
    assert_eq!(
        (redirect.status, redirect.headers["location"].to_str().unwrap()),
        (StatusCode::FOUND, "http://169.254.169.254/")
    );
    assert!(matches!(net.get_json::<Value>(&url, 100).await, Err(NetError::Status(StatusCode::NOT_FOUND))));
    assert!(matches!(net.get_json::<Value>(&url, 100).await, Err(NetError::Malformed(_))));
    assert_eq!(count.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn caps_size_and_time() {
    // A body that grows past the limit; a head that never ends; a body that never ends.
    let (address, _) = server(&[
        "HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n0000000000000000000000000000000000000000000000000000000000000\
         (hang)",
        "HTTP/1.1 200 OK\r\nx: (hang)",
        "HTTP/1.1 200 OK\r\n\r\n(hang)",
    ])
    .await;
    let (net, url) = (loopback(), format!("http://{address}/"));
    let small = Limits { max_bytes: 10, ..LIMITS };
    assert!(matches!(net.get(&url, small).await, Err(NetError::TooLarge(10))));
    for _ in 0..2 {
        let start = Instant::now();
        let error = net.get(&url, LIMITS).await.unwrap_err();
        assert!(matches!(error, NetError::Timeout), "{error}");
        assert!(start.elapsed() < Duration::from_secs(2));
    }
}

#[tokio::test]
async fn names_are_judged_by_their_addresses() {
    let (address, count) = server(&["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"]).await;
    let dns_server = Some(name_server().await);
    let port = address.port();
    let guarded = net(OutboundPolicy { dns_server, ..OutboundPolicy::default() });
    for host in ["evil.inside.test", "evil.mixed.test"] {
        let error = guarded.get(&format!("https://{host}:{port}/"), LIMITS).await.unwrap_err();
        assert!(matches!(error, NetError::Refused(_)), "{host}: {error}");
        let url = Url::parse(&format!("wss://{host}:{port}/")).unwrap();
        assert!(matches!(guarded.connect(&url).await, Err(NetError::Refused(_))), "{host}");
    }
    let missing = guarded.get("https://nowhere.test/", LIMITS).await.unwrap_err();
    assert!(matches!(missing, NetError::Dns(_)), "{missing}");
    assert_eq!(count.load(Ordering::SeqCst), 0, "nothing was connected to");

    let allow = vec!["pds.inside.test".to_owned()];
    let allowing = net(OutboundPolicy { allow, dns_server, ..OutboundPolicy::default() });
    let url = format!("http://pds.inside.test:{port}/");
    assert_eq!(allowing.get(&url, LIMITS).await.unwrap().status, StatusCode::OK);
    assert!(allowing.connect(&Url::parse(&url).unwrap()).await.is_ok());
    assert!(allowing.get(&format!("http://other.inside.test:{port}/"), LIMITS).await.is_err());
}

#[tokio::test]
async fn addresses_that_pass_are_the_only_ones_given() {
    let dns = Dns::new(Some(name_server().await)).unwrap();
    let loopback: IpAddr = "127.0.0.1".parse().unwrap();
    let given = async |address_check: AddressCheck, allow_loopback: bool, own_port: Option<u16>| {
        let own = vec!["127.0.0.1:9000".parse().unwrap()];
        let policy = OutboundPolicy { allow_loopback, own, ..OutboundPolicy::default() };
        dns.addresses("a.mixed.test", &policy, Route { address_check, own_port }).await.unwrap_or_default()
    };
    assert_eq!(given(AddressCheck::Guarded, true, None).await, [loopback]);
    assert!(given(AddressCheck::Guarded, false, None).await.is_empty());
    assert_eq!(given(AddressCheck::Exempt, false, None).await.len(), 2);
    let private: IpAddr = "10.0.0.1".parse().unwrap();
    assert_eq!(given(AddressCheck::Exempt, false, Some(9000)).await, [private]);
}

#[tokio::test]
async fn urls_of_the_configuration_are_exempt_for_trusted_calls_only() {
    let (address, count) = server(&["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"]).await;
    let (redirecting, _) = recorder(move |_| {
        format!("HTTP/1.1 302 Found\r\nlocation: http://{address}/\r\ncontent-length: 0\r\n\r\n")
    })
    .await;
    let urls = [address, redirecting].map(|address| format!("http://{address}/"));
    let trusted = urls.iter().map(|url| Url::parse(url).unwrap()).collect();
    let net = net(OutboundPolicy { trusted, ..OutboundPolicy::default() });
    for url in &urls {
        let error = net.get(url, LIMITS).await.unwrap_err();
        assert!(matches!(error, NetError::Refused(_)), "{url}: {error}");
        assert!(net.trusted().get(url, LIMITS).await.is_ok(), "{url}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
    // The target of a redirect is guarded, even when it is a trusted URL.
    let (headers, trusted) = (HeaderMap::new(), net.trusted());
    let error = trusted.follow(Method::GET, &urls[1], headers, None, LIMITS, 3).await.unwrap_err();
    assert!(matches!(error, NetError::Refused(_)), "{error}");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn no_url_leads_to_our_own_listeners() {
    let (address, count) = server(&["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"]).await;
    let (other, others) = server(&["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"]).await;
    let dns_server = Some(name_server().await);
    let (port, other) = (address.port(), other.port());
    let policy = |own: &str| OutboundPolicy {
        allow_loopback: true,
        allow: vec!["own.inside.test".to_owned(), "127.0.0.1".to_owned()],
        own: vec![format!("{own}:{port}").parse().unwrap()],
        dns_server,
        ..OutboundPolicy::default()
    };
    for own in ["127.0.0.1", "0.0.0.0", "[::]"] {
        let net = net(policy(own));
        for host in [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "[::ffff:127.0.0.1]",
            "localhost",
            "a.localhost",
            "own.inside.test",
        ] {
            let url = format!("http://{host}:{port}/metrics");
            let error = net.get(&url, LIMITS).await.unwrap_err();
            assert!(matches!(error, NetError::Refused(_)), "{own} {url}: {error}");
            let error = net.connect(&Url::parse(&url).unwrap()).await.unwrap_err();
            assert!(matches!(error, NetError::Refused(_)), "{own} {url}: {error}");
        }
        for host in ["127.0.0.1", "own.inside.test"] {
            assert!(net.get(&format!("http://{host}:{other}/"), LIMITS).await.is_ok(), "{own} {host}");
        }
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
    assert_eq!(others.load(Ordering::SeqCst), 6);
}

#[tokio::test]
async fn a_name_is_checked_again_for_every_connection() {
    let (address, count) = server(&[""]).await;
    let dns_server = Some(name_server().await);
    let net = net(OutboundPolicy { allow_loopback: true, dns_server, ..OutboundPolicy::default() });
    let url = Url::parse(&format!("wss://flip.test:{}/", address.port())).unwrap();
    assert!(net.connect(&url).await.is_ok(), "the first answer is an address that is allowed here");
    let error = net.connect(&url).await.unwrap_err();
    assert!(matches!(error, NetError::Refused(_)), "{error}");
    let error = net.get(&format!("https://flip.test:{}/", address.port()), LIMITS).await.unwrap_err();
    assert!(matches!(error, NetError::Refused(_)), "{error}");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn joins_the_strings_of_a_txt_record() {
    let net = net(OutboundPolicy { dns_server: Some(name_server().await), ..OutboundPolicy::default() });
    let mut texts = net.dns_txt("txt.test").await.unwrap();
    texts.sort();
    assert_eq!(texts, ["did=did:plc:abc", "other"]);
    assert!(net.dns_txt("nothing.test").await.unwrap().is_empty());
}

#[tokio::test]
async fn connects_only_where_the_policy_allows() {
    let (address, _) = server(&[""]).await;
    let url = Url::parse(&format!("ws://{address}/subscribe")).unwrap();
    assert!(loopback().connect(&url).await.is_ok());
    let guarded = net(OutboundPolicy::default());
    assert!(matches!(guarded.connect(&url).await, Err(NetError::Refused(_))));
    let configured = net(OutboundPolicy { trusted: vec![url.clone()], ..OutboundPolicy::default() });
    assert!(configured.trusted().connect(&url).await.is_ok());
    assert!(matches!(configured.connect(&url).await, Err(NetError::Refused(_))), "an untrusted URL");
    let closed = { TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap() };
    let refused = loopback().connect(&Url::parse(&format!("ws://{closed}/")).unwrap()).await;
    assert!(matches!(refused, Err(NetError::Transport(_))));
    let error = loopback().get("ws://127.0.0.1:1/", LIMITS).await.unwrap_err();
    assert!(matches!(error, NetError::Refused(_)), "{error}");
}
