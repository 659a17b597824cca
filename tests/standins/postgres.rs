//! Provides PostgreSQL for tests: one server for all test processes, one database per test.
//!
//! `make test` starts the server and sets `BELVEDERE_TEST_POSTGRES_URL` to its URL. Without that (a plain `cargo test`,
//! an IDE) `postgres.sh shared` starts or finds one for this checkout; it stops itself a minute after the last test
//! process that used it has ended.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AssertSqlSafe, Connection, PgConnection};

struct Server {
    url: String,
    /// Locked (shared) until this process ends: the server's watchdog checks the lock.
    _in_use: Option<File>,
}

/// The server's maintenance database.
fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        #[expect(clippy::disallowed_methods, reason = "tests have no configuration")]
        if let Ok(url) = std::env::var("BELVEDERE_TEST_POSTGRES_URL") {
            return Server { url, _in_use: None };
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../support/postgres.sh");
        let output = Command::new(script).arg("shared").output().expect("postgres.sh runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let (Some(url), Some(users)) = (text.lines().next(), text.lines().nth(1)) else {
            panic!("no PostgreSQL for tests: {}", String::from_utf8_lossy(&output.stderr));
        };
        let in_use = File::open(users).expect("the lock file exists");
        in_use.lock_shared().expect("the lock is acquired");
        Server { url: url.to_owned(), _in_use: Some(in_use) }
    })
}

/// Creates an empty database and returns its URL. It is removed by [`drop_database`], or with the server.
pub async fn create_database() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // Starting the server takes a second or two, so it does not run on an async worker.
    let server = tokio::task::spawn_blocking(server).await.expect("the server starts");
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let unique = std::time::UNIX_EPOCH.elapsed().expect("it is later than 1970").as_nanos();
    let name = format!("t_{}_{number}_{unique}", std::process::id());
    let mut conn = PgConnection::connect(&server.url).await.expect("the test server responds");
    sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name}")))
        .execute(&mut conn)
        .await
        .expect("a database is created");
    conn.close().await.expect("the connection closes");
    let (base, _) = server.url.rsplit_once('/').expect("the URL names a database");
    format!("{base}/{name}")
}

/// Removes a database that [`create_database`] created, and its scripts' role, even while clients are connected. Blocks
/// until that is done.
pub fn drop_database(url: &str) {
    let Some((_, name)) = url.rsplit_once('/') else { return };
    let statements = [
        format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
        format!("DROP ROLE IF EXISTS {name}_scripts"),
    ];
    let dropper = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut conn = PgConnection::connect(&server().url).await.map_err(std::io::Error::other)?;
            for sql in statements {
                sqlx::query(AssertSqlSafe(sql)).execute(&mut conn).await.map_err(std::io::Error::other)?;
            }
            std::io::Result::Ok(())
        })
    });
    // If this fails, the database is removed with the server.
    let _ = dropper.join();
}
