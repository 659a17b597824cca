//! Tests of `http.*`: requests, answers, and the addresses that are refused (lua-runtime.md §12, §15).

use serde_json::json;

use super::{FailureKind, Invocation, Stage, of_client};
use crate::scripts::OutboundHttp;
use crate::scripts::failure::FaultCode;
use belvedere_standins::recorder::recorder;
use belvedere_web::net::testing::{loopback, net};
use belvedere_web::net::{Client, OutboundPolicy};

impl Stage {
    /// With access to other servers through `client`.
    async fn with_net(client: Client) -> Self {
        let mut stage = Self::set().await;
        stage.services = stage.services.with_web(OutboundHttp::new(client, 8));
        stage
    }
}

const ECHO: &str =
    "HTTP/1.1 200 OK\r\nx-a: 1\r\nX-A: 2\r\nset-cookie: a=1\r\nset-cookie: b=2\r\ncontent-length: 4\r\n\r\n";

#[tokio::test]
async fn requests_go_out_and_answers_come_back_as_they_are() {
    let (address, seen) = recorder(|request| {
        if request.starts_with("HEAD") {
            return "HTTP/1.1 204 No Content\r\nx-head: yes\r\n\r\n".to_owned();
        }
        format!("{ECHO}\0\u{1}ok")
    })
    .await;
    let stage = Stage::with_net(loopback()).await;
    let source = format!(
        "local url = 'http://{address}/x?q=1'
         local a = http.post(url, {{ headers = {{ ['X-Mine'] = 'yes', Authorization = 'Bearer t' }}, body = 'a\\0b\\xff' }})
         local b = http.head(url)
         for _, m in ipairs {{ 'get', 'put', 'patch', 'delete' }} do http[m](url) end
         return {{ a.status, a.body == '\\0\\1ok', a.headers, b.status, b.headers['x-head'], b.body, a.set_cookies, b.set_cookies }}"
    );
    let answer = stage.handle(&source).await.unwrap();
    assert_eq!(
        answer,
        json!([200, true, { "x-a": "1, 2", "set-cookie": "b=2", "content-length": "4", "connection": "close" },
            204, "yes", "", ["a=1", "b=2"], []])
    );
    let seen = seen.lock().unwrap().clone();
    assert!(seen[0].starts_with("POST /x?q=1 HTTP/1.1") && seen[0].contains("x-mine: yes"), "{}", seen[0]);
    assert!(seen[0].contains("authorization: Bearer t") && !seen[0].contains("content-type"), "{}", seen[0]);
    assert!(seen[0].ends_with("\r\n\r\na\0b\u{fffd}"), "{:?}", seen[0]);
    let verbs: Vec<_> = seen.iter().map(|request| request.split(' ').next().unwrap()).collect();
    assert_eq!(verbs, ["POST", "HEAD", "GET", "PUT", "PATCH", "DELETE"]);
}

#[tokio::test]
async fn other_statuses_are_answers_and_no_answer_is_an_error() {
    let (address, _) =
        recorder(|_| "HTTP/1.1 503 Unavailable\r\ncontent-length: 2\r\n\r\nno".to_owned()).await;
    let stage = Stage::with_net(loopback()).await;
    assert_eq!(stage.eval(&format!("http.get('http://{address}/').status")).await, json!(503));
    let failure = stage.handle("http.get('http://127.0.0.1:9/')").await.unwrap_err();
    assert_eq!((failure.kind, failure.fault), (FailureKind::Runtime, Some(FaultCode::Unavailable)));
    assert!(failure.is_retryable(), "{failure:?}");
    assert!(failure.message.contains(":1: http.get: connection failed"), "{failure:?}");
}

#[tokio::test]
async fn several_at_once_keep_their_order() {
    let (address, _) = recorder(|request| {
        let path = request.split(' ').nth(1).unwrap().to_owned();
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}", path.len())
    })
    .await;
    let stage = Stage::with_net(loopback()).await;
    let source = format!(
        "local list = {{}}
         for i = 1, 9 do list[i] = {{ url = 'http://{address}/' .. i }} end
         list[5] = {{ method = 'POST', url = 'https://10.0.0.1/' }}
         local out = toarray({{}})
         for i, a in ipairs(http.send_all(list)) do out[i] = a.body or a.error.code end
         return {{ out, #http.send_all({{}}) }}"
    );
    let answer = stage.handle(&source).await.unwrap();
    assert_eq!(answer, json!([["/1", "/2", "/3", "/4", "forbidden", "/6", "/7", "/8", "/9"], 0]));
}

#[tokio::test]
async fn invalid_requests_are_refused_before_anything_is_sent() {
    let stage = Stage::with_net(loopback()).await;
    for (call, message) in [
        ("http.get()", "url: string expected, got nil"),
        ("http.get('nonsense')", "not a URL"),
        ("http.get('file:///etc/passwd')", "https://"),
        ("http.get('https://example.com', 'x')", "table expected, got string"),
        ("http.get('https://example.com', { body = 'x' })", "a get has no body"),
        ("http.post('https://example.com', { body = {} })", "body: string expected, got table"),
        ("http.post('https://example.com', { headers = 'x' })", "headers: table expected"),
        ("http.post('https://example.com', { headers = { a = true } })", "header a: string expected"),
        ("http.post('https://example.com', { headers = { ['a b'] = '1' } })", "not a header name"),
        ("http.post('https://example.com', { headers = { a = 'x\\r\\nb: 1' } })", "not a header value"),
        ("http.post('https://example.com', { headers = { Host = 'x' } })", "the header host can't be set"),
        (
            "http.post('https://example.com', { headers = { ['transfer-encoding'] = 'chunked' } })",
            "can't be set",
        ),
        ("http.send_all { { method = 'TRACE', url = 'https://example.com' } }", "method must be one of"),
        ("http.send_all { 7 }", "request 1: table expected"),
    ] {
        let failure = stage.handle(call).await.map(|_| ());
        let failure = failure.unwrap_err();
        assert_eq!(failure.fault, Some(FaultCode::BadInput), "{call}: {failure:?}");
        assert!(failure.message.contains(message), "{call}: {failure:?}");
    }
}

#[tokio::test]
async fn internal_addresses_are_out_of_reach_in_every_notation() {
    let stage = Stage::with_net(net(OutboundPolicy::default())).await;
    let urls = [
        "http://127.0.0.1/",
        "https://127.0.0.1/",
        "https://127.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0177.0.0.1/",
        "https://0/",
        "https://localhost/",
        "https://LOCALHOST./",
        "https://a.localhost/",
        "https://[::1]/",
        "https://[::]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:a9fe:a9fe]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[fd00::1]/",
        "https://[fe80::1]/",
        "https://169.254.169.254/latest/meta-data/",
        "https://10.0.0.1/",
        "https://172.16.0.1/",
        "https://192.168.0.1/",
        "https://100.64.0.1/",
        "https://0.0.0.0/",
        "https://１２７.0.0.1/",
        "https://127。0。0。1/",
        "https://user:pw@127.0.0.1/",
        "https://example.com@127.0.0.1/",
        "https://127.0.0.1:443\\\\@example.com/",
        "http://example.com/",
    ];
    let list: Vec<String> = urls.iter().map(|url| format!("\"{url}\"")).collect();
    let source = format!(
        "local out = toarray({{}})
         for i, url in ipairs {{ {} }} do
           local ok, e = pcall(http.get, url)
           out[i] = ok and 'reached' or e.code
         end
         return out",
        list.join(", ")
    );
    let answer = stage.handle(&source).await.unwrap();
    for (url, outcome) in urls.iter().zip(answer.as_array().unwrap()) {
        assert_eq!(outcome, "forbidden", "{url}");
    }
}

#[tokio::test]
async fn requests_and_bytes_of_a_run_are_bounded() {
    let (address, seen) = recorder(|_| {
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{}", 4 << 20, "x".repeat(4 << 20))
    })
    .await;
    let stage = Stage::with_net(loopback()).await;
    let source = format!(
        "local n = 0
         local ok, e = pcall(function() while true do http.get('http://{address}/'); n = n + 1 end end)
         return {{ n, e.code }}"
    );
    assert_eq!(stage.handle(&source).await.unwrap(), json!([4, "limit"]));
    assert_eq!(seen.lock().unwrap().len(), 4, "no request is sent without bytes left for its answer");

    let (address, seen) = recorder(|_| "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned()).await;
    let source = format!(
        "local n = 0
         local ok, e = pcall(function() while true do http.get('http://{address}/'); n = n + 1 end end)
         return {{ n, e.code, pcall(http.send_all, {{ {{ url = 'http://{address}/' }} }}) }}"
    );
    let answer = stage.handle(&source).await.unwrap();
    assert_eq!((&answer[0], &answer[1], &answer[2]), (&json!(50), &json!("limit"), &json!(false)));
    assert_eq!(seen.lock().unwrap().len(), 50);

    // More at once than a batch may hold, a body that is too large, and one that never ends.
    let (address, _) = recorder(|_| {
        format!("HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n{}(hang)", "y".repeat(6 << 20))
    })
    .await;
    let source = format!(
        "local many = {{}}
         for i = 1, 21 do many[i] = {{ url = 'http://{address}/' }} end
         local _, a = pcall(http.send_all, many)
         local _, b = pcall(http.post, 'http://{address}/', {{ body = string.rep('x', 5242881) }})
         local _, c = pcall(http.get, 'http://{address}/')
         return {{ a.code, b.code, c.code, c.message }}"
    );
    let answer = stage.handle(&source).await.unwrap();
    assert_eq!((&answer[0], &answer[1], &answer[2]), (&json!("limit"), &json!("limit"), &json!("limit")));
    assert!(answer[3].as_str().unwrap().contains("larger than 5242880 bytes"), "{answer}");
}

#[tokio::test]
async fn slow_servers_do_not_take_the_whole_pool() {
    let (address, seen) = recorder(|_| "HTTP/1.1 200 OK\r\nx: (hang)".to_owned()).await;
    let mut stage = Stage::set().await;
    stage.services = stage.services.with_web(OutboundHttp::new(loopback(), 2));
    let source = format!("http.get('http://{address}/')");
    let waiting = stage.handle(&source);
    let other = async {
        while seen.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        stage.handle(&source).await.unwrap_err()
    };
    let refused = tokio::select! {
        ended = waiting => panic!("{ended:?}"),
        refused = other => refused,
    };
    assert_eq!(refused.fault, Some(FaultCode::Unavailable));
    assert!(refused.message.contains("too many scripts"), "{refused:?}");
}

#[tokio::test]
async fn a_tenant_with_slow_servers_leaves_the_way_to_others_free() {
    let (slow, seen) = recorder(|_| "HTTP/1.1 200 OK\r\nx: (hang)".to_owned()).await;
    let (quick, _) = recorder(|_| "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned()).await;
    let mut stage = Stage::set().await;
    // Four at once, two of a tenant.
    stage.services = stage.services.with_web(OutboundHttp::new(loopback(), 8));
    let run = async |tenant: &str, address| {
        let caller = of_client(tenant);
        let source = format!("function handle() return http.get('http://{address}/').status end");
        stage.run_with(&source, Invocation { caller: Some(&caller), ..Invocation::default() }).await
    };
    let greedy = futures_util::future::join_all((0..8).map(|_| run("greedy", slow)));
    let modest = async {
        while seen.lock().unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        run("modest", quick).await.unwrap()
    };
    let served = tokio::select! {
        ended = greedy => panic!("{ended:?}"),
        served = modest => served,
    };
    assert_eq!(&*served.body, b"200");
}

#[tokio::test]
async fn http_without_network_access_is_forbidden() {
    let stage = Stage::set().await;
    let failure = stage.handle("http.get('https://example.com')").await.unwrap_err();
    assert_eq!(failure.fault, Some(FaultCode::Forbidden), "{failure:?}");
}
