//! `/health`, `/livez` and `/readyz`, also while the database is unavailable, and the metrics listener.

use crate::fixtures::World;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belvedere_standins::database::sqlite_url;
use belvedere_standins::postgres;
use http::{Method, StatusCode};
use tokio::net::{TcpListener, TcpStream};

use crate::support::instance::Instance;

crate::in_both_worlds!(a_healthy_server_is_ready);

async fn a_healthy_server_is_ready(world: World) {
    let server = &world.server;
    let health = server.request(Method::GET, "/health", &[], None).await;
    assert_eq!((health.status, health.text.as_str()), (StatusCode::OK, "ok"));
    assert_eq!(server.request(Method::GET, "/livez", &[], None).await.status, StatusCode::OK);
    let ready = server.request(Method::GET, "/readyz", &[], None).await;
    assert_eq!(ready.status, StatusCode::OK, "{}", ready.text);
    assert_eq!(ready.body["status"], "ready");
    for check in ["database", "migrations", "stream", "catch_up", "labelers", "accepting"] {
        assert_eq!(ready.body["checks"][check]["ok"], true, "{}", ready.text);
    }
}

#[tokio::test]
async fn a_restart_is_fast() {
    let (url, _directory) = sqlite_url();
    let mut server = Instance::start(&url, "none").await;
    server.stop();
    let took = server.start_again().await;
    // The target is 0.2 s for an optimised server on an idle machine, which this is not.
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// A TCP proxy to the database that can be disconnected.
struct Cable {
    address: std::net::SocketAddr,
    plugged: Arc<AtomicBool>,
}

impl Cable {
    async fn to(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let plugged = Arc::new(AtomicBool::new(true));
        let is_plugged = Arc::clone(&plugged);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (target, plugged) = (target.clone(), Arc::clone(&is_plugged));
                tokio::spawn(async move {
                    if !plugged.load(Ordering::Relaxed) {
                        return;
                    }
                    let mut far = TcpStream::connect(target).await.unwrap();
                    let pulled = async {
                        while plugged.load(Ordering::Relaxed) {
                            tokio::time::sleep(Duration::from_millis(20)).await;
                        }
                    };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        () = pulled => {}
                    }
                });
            }
        });
        Self { address, plugged }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_database_it_is_not_ready_and_it_recovers_by_itself() {
    let mut url = url::Url::parse(&postgres::create_database().await).unwrap();
    let cable = Cable::to(format!("{}:{}", url.host_str().unwrap(), url.port().unwrap_or(5432))).await;
    url.set_host(Some("127.0.0.1")).unwrap();
    url.set_port(Some(cable.address.port())).unwrap();
    let server = Instance::start(url.as_str(), "none").await;
    let ready = async |server: &Instance| server.request(Method::GET, "/readyz", &[], None).await;
    assert_eq!(ready(&server).await.status, StatusCode::OK);

    cable.plugged.store(false, Ordering::Relaxed);
    // Wait until every open connection is closed.
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.eventually("not ready", async |s| ready(s).await.status == StatusCode::SERVICE_UNAVAILABLE).await;
    let answer = ready(&server).await;
    assert_eq!(answer.body["checks"]["database"]["ok"], false, "{}", answer.text);
    assert!(answer.body["checks"]["database"]["reason"].is_string());
    assert_eq!(server.request(Method::GET, "/health", &[], None).await.status, StatusCode::OK);
    // Wait until the cached key has expired.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let answer = server.admin(Method::GET, "/admin/lexicons", None).await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{}", answer.text);
    assert_eq!(answer.error(), "internal server error");
    assert_eq!(answer.body["correlationId"], answer.headers["x-request-id"].to_str().unwrap());

    cable.plugged.store(true, Ordering::Relaxed);
    server.eventually("ready again", async |s| ready(s).await.status == StatusCode::OK).await;
    assert_eq!(server.admin(Method::GET, "/admin/lexicons", None).await.status, StatusCode::OK);
}

/// With a loopback PUBLIC_URL, scripts may send requests to this machine, but not to the server's own listeners.
#[tokio::test]
async fn scripts_do_not_reach_our_own_listeners() {
    let metrics = crate::support::process::free_address();
    let (url, _directory) = sqlite_url();
    let address = metrics.to_string();
    let server = Instance::start_with(&url, "none", &[("METRICS_ADDR", &address)]).await;
    let other = belvedere_standins::upstream::Upstream::start(|_| {
        belvedere_standins::upstream::respond(200, "text/plain", "hello")
    })
    .await;
    server.upload(crate::support::instance::query_lexicon("com.example.fetch"), None).await;
    let source = "function handle() \
        local ok, answer = pcall(http.get, params.url) \
        return { status = ok and answer.status or answer.code } end";
    server.bind("com.example.fetch", source).await;
    let fetch = async |url: &str| {
        let url: String = url::form_urlencoded::byte_serialize(url.as_bytes()).collect();
        server.xrpc(&format!("com.example.fetch?url={url}")).await.body["status"].clone()
    };
    assert_eq!(fetch(&other.url()).await, 200);
    let (metrics, own) = (metrics.port(), server.address.port());
    for host in
        ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "x.localhost"]
    {
        for (port, path) in [(metrics, "metrics"), (own, "admin/stats"), (own, "xrpc/com.example.fetch")] {
            assert_eq!(
                fetch(&format!("http://{host}:{port}/{path}")).await,
                "forbidden",
                "{host}:{port}/{path}"
            );
        }
    }
}

/// The status of `/readyz`, and its message about the database.
async fn database(server: &Instance) -> (StatusCode, String) {
    let answer = server.request(Method::GET, "/readyz", &[], None).await;
    let reason = answer.body["checks"]["database"]["reason"].as_str().unwrap_or_default();
    (answer.status, reason.to_owned())
}

async fn becomes(server: &Instance, status: StatusCode, reason: &str) {
    let what = format!("{status} {reason}");
    server
        .eventually(&what, async |server| {
            let (is, why) = database(server).await;
            is == status && why.contains(reason)
        })
        .await;
}

#[tokio::test]
async fn a_missing_or_replaced_database_file_is_detected() {
    let (url, directory) = sqlite_url();
    let server = Instance::start(&url, "none").await;
    assert_eq!(database(&server).await.0, StatusCode::OK);
    let (file, away) = (directory.path().join("test.db"), directory.path().join("away.db"));
    std::fs::rename(&file, &away).unwrap();
    becomes(&server, StatusCode::SERVICE_UNAVAILABLE, "deleted or replaced").await;
    assert!(!file.exists(), "looking made a database");
    std::fs::copy(&away, &file).unwrap();
    becomes(&server, StatusCode::SERVICE_UNAVAILABLE, "deleted or replaced").await;
    std::fs::rename(&away, &file).unwrap();
    becomes(&server, StatusCode::OK, "").await;
}

#[tokio::test]
async fn a_corrupt_database_is_detected() {
    let (url, directory) = sqlite_url();
    let mut server = Instance::start(&url, "none").await;
    // Checkpoint, so that all data is in the file instead of the write-ahead log.
    assert_eq!(server.stop(), Some(0));
    server.start_again().await;
    assert_eq!(database(&server).await.0, StatusCode::OK);
    let mut file = std::fs::File::options().write(true).open(directory.path().join("test.db")).unwrap();
    let length = file.metadata().unwrap().len() as usize;
    std::io::Write::write_all(&mut file, &vec![0xff; length]).unwrap();
    becomes(&server, StatusCode::SERVICE_UNAVAILABLE, "can't be read").await;
    assert_eq!(server.request(Method::GET, "/health", &[], None).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_read_only_database_is_detected() {
    let url = postgres::create_database().await;
    let server = Instance::start(&url, "none").await;
    assert_eq!(database(&server).await.0, StatusCode::OK);
    let admin = belvedere_storage::store::Db::open(&url, 1).await.unwrap();
    let belvedere_storage::store::Db::Postgres(postgres) = &admin else { unreachable!() };
    let name = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    let set = async |sql: String| {
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&postgres.pool).await.unwrap();
        // Settings of a database apply to new connections only.
        let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                      WHERE datname = current_database() AND pid <> pg_backend_pid()";
        sqlx::raw_sql(others).execute(&postgres.pool).await.unwrap();
    };
    set(format!("ALTER DATABASE \"{name}\" SET default_transaction_read_only = on")).await;
    becomes(&server, StatusCode::SERVICE_UNAVAILABLE, "can't be written").await;
    set(format!("SET default_transaction_read_only = off; ALTER DATABASE \"{name}\" RESET default_transaction_read_only")).await;
    becomes(&server, StatusCode::OK, "").await;
    admin.close().await;
}

#[tokio::test]
async fn metrics_are_served_on_a_separate_listener() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (url, _directory) = sqlite_url();
    let more = [("METRICS_ADDR", address.to_string())];
    let more: Vec<(&'static str, &str)> = more.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let server = Instance::start_with(&url, "none", &more).await;
    assert_eq!(server.request(Method::GET, "/metrics", &[], None).await.status, StatusCode::NOT_FOUND);
    let (status, _, body) =
        belvedere_standins::http_client::send(address, Method::GET, "/metrics", &[], None).await.unwrap();
    let text = String::from_utf8_lossy(&body).into_owned();
    assert_eq!(status, StatusCode::OK);
    for line in [
        r#"belvedere_http_requests_total{method="GET",route="/health",status="2xx"}"#,
        r#"belvedere_http_requests_total{method="",route="(none)",status="4xx"} 1"#,
        r#"belvedere_http_request_duration_seconds_bucket{method="GET",route="/health""#,
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}
