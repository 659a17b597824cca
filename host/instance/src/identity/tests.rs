mod handles;
mod without_look_ups;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use url::Url;

use super::*;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_protocol::atproto::Did;
use belvedere_web::fair_share::Full;
use belvedere_web::net::{Client, OutboundPolicy, install_tls_provider};

/// A PLC directory with canned responses by path, which counts its requests.
struct Directory {
    answers: Arc<Mutex<HashMap<String, (u16, String)>>>,
    requests: Arc<AtomicUsize>,
    port: u16,
}

impl Directory {
    async fn start() -> Self {
        Self::start_at("127.0.0.1:0").await
    }

    async fn start_at(address: &str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let directory = Self {
            answers: Arc::default(),
            requests: Arc::default(),
            port: listener.local_addr().unwrap().port(),
        };
        let (answers, requests) = (Arc::clone(&directory.answers), Arc::clone(&directory.requests));
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 4096];
                let len = stream.read(&mut request).await.unwrap();
                let text = String::from_utf8_lossy(&request[..len]).into_owned();
                let path = text.split(' ').nth(1).unwrap_or_default();
                let mut answer = (404, "{}".to_owned());
                if let Some(known) = answers.lock().unwrap().get_mut(path) {
                    answer = known.clone();
                    // The second answer to a rate-limited request.
                    if let Some((_, next)) = known.1.clone().split_once("then ") {
                        *known = (200, next.to_owned());
                    }
                }
                let (status, body) = answer;
                let retry = body.split(' ').next().unwrap_or_default();
                let retry = if status == 429 { format!("retry-after: {retry}\r\n") } else { String::new() };
                // After the answer was determined, so that a test can change it for the next request.
                requests.fetch_add(1, Ordering::SeqCst);
                // Long enough for all concurrent callers to wait for the same fetch.
                tokio::time::sleep(Duration::from_millis(20)).await;
                let head = format!(
                    "HTTP/1.1 {status} X\r\nconnection: close\r\n{retry}content-length: {}\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
            }
        });
        directory
    }

    fn set(&self, path: &str, status: u16, body: impl ToString) {
        self.answers.lock().unwrap().insert(path.to_owned(), (status, body.to_string()));
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    fn resolver(&self, clock: &Clock, allow_loopback: bool) -> Resolver {
        install_tls_provider();
        let plc = Url::parse(&format!("http://127.0.0.1:{}/", self.port)).unwrap();
        let trusted = vec![plc.clone()];
        let net =
            Client::new(OutboundPolicy { allow_loopback, trusted, ..OutboundPolicy::default() }).unwrap();
        Resolver::new(net, plc, clock.clone())
    }
}

fn did(text: &str) -> Did {
    Did::try_from(text).unwrap()
}

fn document(did: &str, pds: &str) -> serde_json::Value {
    json!({"id": did, "service": [
        {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer", "serviceEndpoint": pds}
    ]})
}

fn clock() -> Clock {
    Clock::fixed(Timestamp(0))
}

#[tokio::test]
async fn concurrent_callers_share_one_fetch_which_is_cached() {
    let directory = Directory::start().await;
    directory.set("/did:plc:abc", 200, document("did:plc:abc", "https://one.test"));
    let resolver = directory.resolver(&clock(), false);
    let abc = did("did:plc:abc");
    let all = futures_util::future::join_all((0..20).map(|_| resolver.resolve(&abc))).await;
    assert!(all.into_iter().all(|r| r.unwrap().pds() == Some("https://one.test")));
    assert_eq!(directory.requests(), 1);

    directory.set("/did:plc:abc", 200, document("did:plc:abc", "https://two.test"));
    assert_eq!(resolver.resolve(&abc).await.unwrap().pds(), Some("https://one.test"));
    resolver.invalidate(&abc).await;
    assert_eq!(resolver.resolve(&abc).await.unwrap().pds(), Some("https://two.test"));
    assert_eq!(directory.requests(), 2);
}

/// The directory answers with the old document, and the account moves before the answer arrives.
#[tokio::test]
async fn a_look_up_in_progress_does_not_bring_back_what_was_invalidated() {
    let directory = Directory::start().await;
    directory.set("/did:plc:abc", 200, document("did:plc:abc", "https://one.test"));
    let resolver = directory.resolver(&clock(), false);
    let abc = did("did:plc:abc");
    let (other, sought) = (resolver.clone(), abc.clone());
    let lookup = tokio::spawn(async move { other.resolve(&sought).await });
    while directory.requests() == 0 {
        tokio::task::yield_now().await;
    }
    directory.set("/did:plc:abc", 200, document("did:plc:abc", "https://two.test"));
    resolver.invalidate(&abc).await;
    assert_eq!(lookup.await.unwrap().unwrap().pds(), Some("https://two.test"));
    assert_eq!(resolver.resolve(&abc).await.unwrap().pds(), Some("https://two.test"));
    assert_eq!(resolver.last_known_pds(&abc).await.as_deref(), Some("https://two.test"));
    assert_eq!(directory.requests(), 2);
}

#[tokio::test]
async fn refreshing_is_limited_and_a_failure_keeps_the_cached_document() {
    let directory = Directory::start().await;
    directory.set("/did:plc:abc", 200, document("did:plc:abc", "https://one.test"));
    let clock = clock();
    let resolver = directory.resolver(&clock, false);
    let abc = did("did:plc:abc");
    resolver.resolve(&abc).await.unwrap();
    directory.set("/did:plc:abc", 200, document("did:plc:abc", "https://two.test"));
    for _ in 0..5 {
        assert_eq!(resolver.refresh(&abc).await.unwrap().pds(), Some("https://one.test"));
    }
    assert_eq!(directory.requests(), 1);
    clock.set(Timestamp(31_000_000));
    for _ in 0..5 {
        assert_eq!(resolver.refresh(&abc).await.unwrap().pds(), Some("https://two.test"));
    }
    assert_eq!(directory.requests(), 2);
    clock.set(Timestamp(62_000_000));
    directory.set("/did:plc:abc", 500, "");
    assert_eq!(resolver.refresh(&abc).await.unwrap().pds(), Some("https://two.test"));
    // The failed fetch is not repeated at once either.
    directory.set("/did:plc:abc", 410, "");
    assert_eq!(resolver.refresh(&abc).await.unwrap().pds(), Some("https://two.test"));
    clock.set(Timestamp(93_000_000));
    assert!(matches!(resolver.refresh(&abc).await, Err(IdentityError::Tombstoned)));
}

#[tokio::test]
async fn absent_and_invalid_documents_are_cached() {
    let directory = Directory::start().await;
    directory.set("/did:plc:other", 200, document("did:plc:abc", "https://one.test"));
    directory.set("/did:plc:junk", 200, "<html>");
    directory.set("/did:plc:down", 503, "");
    let resolver = directory.resolver(&clock(), false);
    for _ in 0..3 {
        assert!(matches!(resolver.resolve(&did("did:plc:none")).await, Err(IdentityError::NotFound)));
        assert!(matches!(resolver.resolve(&did("did:plc:other")).await, Err(IdentityError::Invalid(_))));
        assert!(matches!(resolver.resolve(&did("did:plc:junk")).await, Err(IdentityError::Invalid(_))));
        assert!(matches!(resolver.resolve(&did("did:plc:down")).await, Err(IdentityError::Unavailable(_))));
    }
    assert_eq!(directory.requests(), 4);
    for unsupported in ["did:key:zabc", "did:web:example.com:alice", "did:plc:a..%2Fb", "did:example:x"] {
        let error = resolver.resolve(&did(unsupported)).await.unwrap_err();
        assert!(matches!(error, IdentityError::Unsupported), "{unsupported}: {error}");
    }
    assert_eq!(directory.requests(), 4);
}

#[tokio::test]
async fn did_web_on_loopback_is_for_development_only() {
    let directory = Directory::start().await;
    let name = format!("did:web:127.0.0.1%3A{}", directory.port);
    directory.set("/.well-known/did.json", 200, document(&name, "https://one.test"));
    let found = directory.resolver(&clock(), true).resolve(&did(&name)).await;
    assert_eq!(found.unwrap().pds(), Some("https://one.test"));
    let other = format!("did:web:localhost%3A{}", directory.port);
    let development = directory.resolver(&clock(), true).resolve(&did(&other)).await;
    assert!(matches!(development, Err(IdentityError::Invalid(_))), "{development:?}");
    let production = directory.resolver(&clock(), false).resolve(&did(&other)).await;
    assert!(matches!(production, Err(IdentityError::Unavailable(_))), "{production:?}");
}

/// Listeners of one domain that accept connections and never answer, and their DIDs.
async fn silent_hosts() -> (Vec<TcpListener>, Vec<Did>) {
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(TcpListener::bind("127.0.0.2:0").await.unwrap());
    }
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let dids = silent.iter().map(|host| did(&format!("did:web:127.0.0.2%3A{}", port(host)))).collect();
    (silent, dids)
}

/// More look-ups of one domain stall than its share allows: look-ups of other domains run at once, and those above the
/// bound are refused and not cached.
#[tokio::test]
async fn a_domain_that_stalls_does_not_delay_others() {
    let directory = Directory::start().await;
    directory.set("/did:plc:abc", 200, document("did:plc:abc", "https://one.test"));
    let web = format!("did:web:127.0.0.1%3A{}", directory.port);
    directory.set("/.well-known/did.json", 200, document(&web, "https://two.test"));
    let resolver = directory.resolver(&clock(), true);
    let (_silent, dids) = silent_hosts().await;
    let (mut waiting, mut refused) = (Vec::new(), Vec::new());
    for did in &dids {
        let mut call = Box::pin(resolver.resolve(did));
        match futures_util::poll!(&mut call) {
            std::task::Poll::Pending => waiting.push(call),
            std::task::Poll::Ready(outcome) => {
                assert!(matches!(outcome, Err(IdentityError::Busy(Full::Tenant))), "{outcome:?}");
                refused.push(did);
            }
        }
    }
    assert_eq!((waiting.len(), refused.len()), (20, 20), "4 in progress, 16 waiting");
    assert_eq!(resolver.resolve(&did("did:plc:abc")).await.unwrap().pds(), Some("https://one.test"));
    assert_eq!(resolver.resolve(&did(&web)).await.unwrap().pds(), Some("https://two.test"));
    assert!(resolver.known(refused[0]).await.is_none());
    drop(waiting);
    let mut again = Box::pin(resolver.resolve(refused[0]));
    assert!(futures_util::poll!(&mut again).is_pending(), "it is looked up now");
}

/// All look-ups of tasks stall: none is refused, and callers have the permits that they have without tasks, even at the
/// same domain.
#[tokio::test]
async fn tasks_take_no_permits_from_callers() {
    let host = Directory::start_at("127.0.0.2:0").await;
    let web = format!("did:web:127.0.0.2%3A{}", host.port);
    host.set("/.well-known/did.json", 200, document(&web, "https://one.test"));
    let resolver = host.resolver(&clock(), true);
    let (tasks, (_silent, dids)) = (resolver.for_tasks(40), silent_hosts().await);
    let mut calls: Vec<_> = dids.iter().map(|did| Box::pin(tasks.resolve(did))).collect();
    for call in &mut calls {
        assert!(futures_util::poll!(call).is_pending());
    }
    assert_eq!(resolver.resolve(&did(&web)).await.unwrap().pds(), Some("https://one.test"));
    assert!(tasks.known(&did(&web)).await.is_some(), "the documents are the same");
}

/// The number of waiting calls.
fn stalled<F: Future>(calls: &mut [std::pin::Pin<Box<F>>]) -> usize {
    let poll = |call: &mut std::pin::Pin<Box<F>>| futures_util::FutureExt::now_or_never(call).is_none();
    calls.iter_mut().map(poll).filter(|stalled| *stalled).count()
}

/// All look-ups for reads of records stall, because callers name handles of slow hosts: logins have the permits that they
/// have without them. And the other way round.
#[tokio::test]
async fn reads_of_records_take_no_permits_from_logins() {
    let host = Directory::start_at("127.0.0.2:0").await;
    let web = format!("did:web:127.0.0.2%3A{}", host.port);
    let document = json!({"id": web, "alsoKnownAs": ["at://alice.example"]});
    host.set("/.well-known/did.json", 200, document);
    let resolver = host.resolver(&clock(), true);
    let (_silent, dids) = silent_hosts().await;
    let uri = "at://alice.example/com.example.note/k";
    resolver.owners.insert("alice.example".to_owned(), Ok(did(&web))).await;
    let reads = resolver.for_reads();
    let mut calls: Vec<_> = dids.iter().map(|did| Box::pin(reads.resolve(did))).collect();
    assert_eq!(stalled(&mut calls), 20, "the others are refused");
    assert!(matches!(resolver.record_uri(uri).await, Err(error) if error.is_temporary()));
    assert_eq!(resolver.resolve(&did(&web)).await.unwrap().handle(), Some("alice.example"));

    drop(calls);
    resolver.invalidate(&did(&web)).await;
    let mut calls: Vec<_> = dids.iter().map(|did| Box::pin(resolver.resolve(did))).collect();
    assert_eq!(stalled(&mut calls), 20);
    assert_eq!(resolver.record_uri(uri).await.unwrap().did, did(&web));
}

/// The directory is asked again after the time that it asks for, and not before, for any caller.
#[tokio::test]
async fn a_directory_that_limits_its_rate_is_waited_for_and_not_asked() {
    let directory = Directory::start().await;
    let (abc, xyz) = (did("did:plc:abc"), did("did:plc:xyz"));
    directory.set("/did:plc:xyz", 200, document("did:plc:xyz", "https://two.test"));
    let resolver = directory.resolver(&clock(), false);

    // A second is waited for by everyone.
    directory.set("/did:plc:abc", 429, format!("1 then {}", document("did:plc:abc", "https://one.test")));
    assert_eq!(resolver.resolve(&abc).await.unwrap().pds(), Some("https://one.test"));
    assert_eq!(directory.requests(), 2);

    // A longer time only by tasks. Others get an error at once, and the directory gets no requests.
    resolver.invalidate(&abc).await;
    directory.set("/did:plc:abc", 429, format!("2 then {}", document("did:plc:abc", "https://three.test")));
    let refused = resolver.resolve(&abc).await.unwrap_err();
    assert!(matches!(refused, IdentityError::RateLimited(_)) && refused.is_temporary(), "{refused}");
    for _ in 0..5 {
        assert!(matches!(resolver.resolve(&xyz).await, Err(IdentityError::RateLimited(_))));
    }
    assert_eq!(directory.requests(), 3);
    let (one, other) = tokio::join!(resolver.resolve_patiently(&abc), resolver.resolve_patiently(&xyz));
    assert_eq!(one.unwrap().pds(), Some("https://three.test"));
    assert_eq!(other.unwrap().pds(), Some("https://two.test"));
    assert_eq!(directory.requests(), 5);
}

/// A cached document is used while the directory can't be asked, also when a newer one was wanted.
#[tokio::test]
async fn a_rate_limit_keeps_what_is_known() {
    let directory = Directory::start().await;
    directory.set("/did:plc:abc", 200, document("did:plc:abc", "https://one.test"));
    let clock = clock();
    let resolver = directory.resolver(&clock, false);
    let abc = did("did:plc:abc");
    resolver.resolve(&abc).await.unwrap();
    clock.set(Timestamp(0).plus_seconds(60));
    directory.set("/did:plc:abc", 429, "60");
    assert_eq!(resolver.refresh(&abc).await.unwrap().pds(), Some("https://one.test"));
}

/// A directory that fails may be believed for a day to have no newer document. While only this server's look-ups are
/// limited, the account may have moved: the last PDS counts for minutes.
#[tokio::test]
async fn the_last_pds_counts_for_minutes_while_look_ups_are_limited() {
    let directory = Directory::start().await;
    directory.set("/did:plc:abc", 200, document("did:plc:abc", "https://one.test"));
    let clock = clock();
    let resolver = directory.resolver(&clock, false);
    let abc = did("did:plc:abc");
    let recent = async |seconds: i64| {
        clock.set(Timestamp(0).plus_seconds(seconds));
        resolver.recent_pds(&abc, 60).await.map(|pds| pds.map(|pds| pds.to_string()))
    };
    let known = || Some("https://one.test".to_owned());
    assert_eq!(recent(0).await.unwrap(), known());
    directory.set("/did:plc:abc", 503, "");
    assert_eq!(recent(36_000).await.unwrap(), known(), "the directory is down");
    directory.set("/did:plc:abc", 200, document("did:plc:abc", "https://one.test"));
    assert_eq!(recent(36_060).await.unwrap(), known());
    directory.set("/did:plc:abc", 429, "600");
    for seconds in [36_120, 36_359] {
        assert_eq!(recent(seconds).await.unwrap(), known());
    }
    let refused = recent(36_360).await;
    assert!(matches!(refused, Err(IdentityError::RateLimited(_))), "{refused:?}");
    assert_eq!(resolver.last_known_pds(&abc).await.as_deref(), Some("https://one.test"), "for readers");
}
