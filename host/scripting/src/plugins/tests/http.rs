//! `http`: what was granted, each hop of it, and its limits.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::Stage;
use crate::plugins::calls::{CallError, FaultCode, RunContext};
use crate::plugins::limits;
use belvedere_standins::recorder::recorder;
use belvedere_web::net::OutboundPolicy;
use belvedere_web::net::testing::net;

/// Answers every request with `body`.
async fn answering(body: String) -> (u16, Arc<Mutex<Vec<String>>>) {
    let (address, seen) =
        recorder(move |_| format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await;
    (address.port(), seen)
}

/// Redirects every request to where `to` says.
async fn redirecting(to: impl Fn(u16) -> String + Send + Sync + 'static) -> u16 {
    let (address, _) = recorder(move |request| {
        let host = request.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
        let port = host.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(0);
        format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", to(port))
    })
    .await;
    address.port()
}

#[tokio::test]
async fn requests_go_to_granted_hosts_only() {
    let (port, seen) = answering("hello".to_owned()).await;
    let stage = Stage::set().await;
    let url = format!("http://localhost:{port}/x?key=1");
    let sent = json!({"method": "POST", "url": url, "headers": [["X-Mine", "é"]], "body": 3});
    assert_eq!(stage.act("http", sent).await.unwrap(), json!([200, 5, "hello"]));
    let request = seen.lock().unwrap()[0].clone();
    assert!(request.starts_with("POST /x?key=1 ") && request.ends_with("\r\n\r\nxxx"), "{request}");
    assert!(request.contains("x-mine: é"), "{request}");
    for url in [
        format!("http://127.0.0.1:{port}/"),
        format!("http://[::1]:{port}/"),
        format!("http://localhost.:{port}/"),
        format!("http://a.localhost:{port}/"),
        "https://other.example/".to_owned(),
    ] {
        let (code, text) = stage.fault("http", json!({"url": url})).await;
        assert!(code == FaultCode::Forbidden && text.contains("did not grant GET"), "{url}: {text}");
    }
    for (request, expected) in [
        (json!({"url": "no url"}), "not a URL"),
        (json!({"url": "file:///etc/passwd"}), "begins with https"),
        (json!({"url": format!("https://localhost/{}", "x".repeat(limits::URL_BYTES))}), "a URL has at most"),
        (json!({"url": "https://localhost/", "method": "CONNECT"}), "a method is"),
        (json!({"url": "https://localhost/", "method": "get"}), "a method is"),
        (json!({"url": "https://localhost/", "headers": [["a\nb", "x"]]}), "not a header name"),
        (json!({"url": "https://localhost/", "headers": [["a", "x\r\ny: z"]]}), "not a header value"),
    ] {
        let (code, text) = stage.fault("http", request).await;
        assert!(code == FaultCode::BadInput && text.contains(expected), "{text}");
    }
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn framing_headers_can_not_be_set() {
    let stage = Stage::set().await;
    for name in [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "connection",
        "Upgrade",
        "te",
        "trailer",
        "expect",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
    ] {
        let request = json!({"url": "https://localhost/", "headers": [[name, "x"]]});
        let (code, text) = stage.fault("http", request).await;
        assert!(code == FaultCode::BadInput && text.contains("can't be set"), "{name}: {text}");
    }
    let many: Vec<Value> = (0..=limits::HTTP_HEADERS).map(|_| json!(["a", "b"])).collect();
    let large = json!([["a", "x".repeat(limits::HTTP_HEADER_BYTES)]]);
    for headers in [json!(many), large] {
        let (code, _) = stage.fault("http", json!({"url": "https://localhost/", "headers": headers})).await;
        assert_eq!(code, FaultCode::BadInput);
    }
}

#[tokio::test]
async fn methods_are_granted_too() {
    let (port, _) = answering("hello".to_owned()).await;
    let stage = Stage::set().await.granted(&[
        "network:request?host=localhost&method=GET",
        "records:read?collection=com.example.game",
        "attest:sign",
        "secrets:read",
        "kv:use",
    ]);
    let url = format!("http://localhost:{port}/");
    assert!(stage.act("http", json!({"url": url})).await.is_ok());
    let (code, text) = stage.fault("http", json!({"url": url, "method": "DELETE"})).await;
    assert!(code == FaultCode::Forbidden && text.contains("DELETE"), "{text}");
}

#[tokio::test]
async fn every_hop_of_a_redirect_is_checked() {
    let stage = Stage::set().await;
    let (target, seen) = answering("there".to_owned()).await;
    let port = redirecting(move |_| format!("http://localhost:{target}/next")).await;
    let url = format!("http://localhost:{port}/");
    let followed = stage.act("http", json!({"url": url, "follow": true})).await.unwrap();
    assert_eq!(followed, json!([200, 5, "there"]));
    assert_eq!(stage.act("http", json!({"url": url})).await.unwrap(), json!([302, 0, ""]));
    assert_eq!(seen.lock().unwrap().len(), 1);
    for to in ["https://other.example/", "http://127.0.0.1:9/", "http://169.254.169.254/latest/meta-data"] {
        let port = redirecting(move |_| to.to_owned()).await;
        let request = json!({"url": format!("http://localhost:{port}/"), "follow": true});
        let (code, text) = stage.fault("http", request).await;
        assert!(code == FaultCode::Forbidden && text.contains("did not grant"), "{to}: {text}");
    }
    let port = redirecting(|port| format!("http://localhost:{port}/again")).await;
    let request = json!({"url": format!("http://localhost:{port}/"), "follow": true});
    let (code, text) = stage.fault("http", request).await;
    assert!(code == FaultCode::Upstream && text.contains("redirects"), "{text}");
}

#[tokio::test]
async fn the_whole_network_is_without_internal_addresses() {
    let everything = [
        "network:request:unrestricted",
        "network:request?host=named.internal",
        "records:read?collection=com.example.game",
        "attest:sign",
        "secrets:read",
        "kv:use",
    ];
    // The operator lets scripts call these hosts.
    let allow = vec!["10.0.0.7".to_owned(), "named.internal".to_owned(), "pds.internal".to_owned()];
    let client = net(OutboundPolicy { allow, ..OutboundPolicy::default() });
    let stage = Stage::with_net(client).await.granted(&everything);
    for url in [
        "http://10.0.0.7/",
        "https://10.0.0.7/",
        "http://pds.internal/",
        "https://127.0.0.1/",
        "https://localhost/",
        "https://[::1]/",
        "https://169.254.169.254/latest/meta-data",
        "https://[64:ff9b::a00:1]/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://user:password@example.com/",
    ] {
        let (code, text) = stage.fault("http", json!({"url": url})).await;
        assert!(code == FaultCode::Forbidden && text.contains("refused"), "{url}: {text}");
    }
    // A host that the operator named for this plugin is exempt, as it is for scripts: the policy does not refuse it.
    let (code, text) = stage.fault("http", json!({"url": "https://named.internal/"})).await;
    assert!(code != FaultCode::Forbidden, "{text}");
}

#[tokio::test]
async fn requests_and_bytes_are_bounded() {
    let stage = Stage::set().await;
    let (port, seen) = answering("hello".to_owned()).await;
    let url = format!("http://localhost:{port}/");
    let (code, text) = stage.fault("http", json!({"url": url, "times": 60})).await;
    assert!(code == FaultCode::Quota && text.contains("50"), "{text}");
    assert_eq!(seen.lock().unwrap().len(), limits::HTTP_REQUESTS as usize);
    // The next call has requests of its own, and redirects count.
    let answers = stage.act("http_all", json!({"url": url, "times": limits::HTTP_BATCH})).await.unwrap();
    assert!(answers.as_array().unwrap().iter().all(|answer| answer[0] == 200), "{answers}");
    let too_many = stage.act("http_all", json!({"url": url, "times": limits::HTTP_BATCH + 1})).await.unwrap();
    assert!(too_many.as_array().unwrap().iter().all(Value::is_string), "{too_many}");

    let (port, _) = answering("x".repeat(limits::HTTP_BODY_BYTES + 1)).await;
    let large = format!("http://localhost:{port}/");
    let (code, text) = stage.fault("http", json!({"url": large})).await;
    assert!(code == FaultCode::TooLarge, "{text}");
    let (code, _) =
        stage.fault("http", json!({"url": url, "method": "POST", "body": limits::HTTP_BODY_BYTES + 1})).await;
    assert_eq!(code, FaultCode::TooLarge);
    // Several that are allowed one by one, and not together.
    let (port, _) = answering("x".repeat(limits::HTTP_BODY_BYTES)).await;
    let full = format!("http://localhost:{port}/");
    for (times, expected) in [(2, 0), (3, 3)] {
        let answers = stage.act("http_all", json!({"url": full, "times": times})).await.unwrap();
        let refused = answers.as_array().unwrap().iter().filter(|answer| answer.is_string()).count();
        assert_eq!(refused, expected, "{answers}");
    }
    // Small ones take nothing from those that follow.
    let (port, _) = answering("x".repeat(1 << 20)).await;
    let small = format!("http://localhost:{port}/");
    let answers = stage.act("http_all", json!({"url": small, "times": limits::HTTP_BATCH})).await.unwrap();
    assert!(answers.as_array().unwrap().iter().all(|answer| answer[0] == 200), "{answers}");
    stage.works().await;
}

#[tokio::test]
async fn a_request_has_its_time() {
    let stage = Stage::set().await;
    let (address, _) = recorder(|_| "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n(hang)".to_owned()).await;
    let url = format!("http://localhost:{}/", address.port());
    let (code, text) = stage.fault("http", json!({"url": url, "timeout": 200})).await;
    assert!(code == FaultCode::TimedOut, "{text}");
    let (code, text) = stage.fault("http", json!({"url": "http://localhost:1/"})).await;
    assert!(code == FaultCode::Upstream && !text.contains("127.0.0.1"), "{text}");
}

#[tokio::test]
async fn a_grant_of_a_host_covers_https_on_its_own_port() {
    let stage = Stage::set().await.granted(&[
        "network:request?host=service.example",
        "records:read?collection=com.example.game",
        "attest:sign",
        "secrets:read",
        "kv:use",
    ]);
    for url in ["http://service.example/", "https://service.example:8443/", "https://service.example:22/"] {
        let (code, text) = stage.fault("http", json!({"url": url})).await;
        assert!(code == FaultCode::Forbidden && text.contains("443"), "{url}: {text}");
    }
    for url in ["https://service.example/", "https://service.example:443/"] {
        let (_, text) = stage.fault("http", json!({"url": url})).await;
        assert!(!text.contains("did not grant"), "{url}: {text}");
    }
}

#[tokio::test]
async fn the_calls_of_a_run_share_its_requests() {
    let (port, seen) = answering("hello".to_owned()).await;
    let stage = Stage::set().await;
    let run = RunContext { requests_left: Arc::new(AtomicU32::new(3)), ..RunContext::default() };
    let args = json!([{"url": format!("http://localhost:{port}/"), "times": 2}]).to_string();
    let call = async || stage.calls.call_function(&stage.plugin, &super::scope(), "http", &args, &run).await;
    assert!(call().await.is_ok());
    match call().await {
        Err(CallError::Fault(fault)) => assert_eq!(fault.code, FaultCode::Quota),
        other => panic!("{other:?}"),
    }
    assert_eq!(seen.lock().unwrap().len(), 3);
}
