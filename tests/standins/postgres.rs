//! Provides PostgreSQL for tests: one server for all test processes, one database per test.
//!
//! `make test` starts the server and sets `BELVEDERE_TEST_POSTGRES_URL` to its URL. Without that (a plain `cargo test`,
//! an IDE) `postgres.sh shared` starts or finds one for this checkout; it stops itself a minute after the last test
//! process that used it has ended.
//!
//! `BELVEDERE_TEST_POSTGRES_URL` may be that of the coordinator of a cluster, and the template a distributed database. Then
//! `BELVEDERE_TEST_POSTGRES_NODES` has the URLs of the other nodes, with commas between them, and each database is made on all of them.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;

use crate::database::given;

struct Server {
    url: String,
    /// The other nodes of its cluster.
    nodes: Vec<String>,
    /// Locked (shared) until this process ends: the server's watchdog checks the lock.
    _in_use: Option<File>,
}

impl Server {
    fn all(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.url).chain(&self.nodes)
    }
}

/// The server's maintenance database.
fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        #[expect(clippy::disallowed_methods, reason = "tests have no configuration")]
        if let Ok(url) = std::env::var("BELVEDERE_TEST_POSTGRES_URL") {
            let nodes = given("BELVEDERE_TEST_POSTGRES_NODES").and_then(|nodes| nodes.into_string().ok());
            let nodes = nodes.iter().flat_map(|nodes| nodes.split(',')).map(str::to_owned).collect();
            return Server { url, nodes, _in_use: None };
        }
        let output = script(&[OsStr::new("shared")]);
        let text = String::from_utf8_lossy(&output.stdout);
        let (Some(url), Some(users)) = (text.lines().next(), text.lines().nth(1)) else {
            panic!("no PostgreSQL for tests: {}", String::from_utf8_lossy(&output.stderr));
        };
        let in_use = File::open(users).expect("the lock file exists");
        in_use.lock_shared().expect("the lock is acquired");
        Server { url: url.to_owned(), nodes: Vec::new(), _in_use: Some(in_use) }
    })
}

/// Creates a database without rows ([`crate::database`]) and returns its URL. It is removed by [`drop_database`], or with
/// the server.
pub async fn create_database() -> String {
    match given("BELVEDERE_TEST_POSTGRES_TEMPLATE") {
        Some(name) => create(&format!(" TEMPLATE {}", name.display())).await,
        None => create("").await,
    }
}

/// Like [`create_database`], without tables.
pub async fn create_new_database() -> String {
    create("").await
}

async fn create(options: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // Starting the server takes a second or two, so it does not run on an async worker.
    let server = tokio::task::spawn_blocking(server).await.expect("the server starts");
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let unique = std::time::UNIX_EPOCH.elapsed().expect("it is later than 1970").as_nanos();
    let name = format!("t_{}_{number}_{unique}", std::process::id());
    for url in server.all() {
        let mut conn = PgConnection::connect(url).await.expect("the test server responds");
        sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name}{options}")))
            .execute(&mut conn)
            .await
            .expect("a database is created");
        conn.close().await.expect("the connection closes");
    }
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
            for url in server().all() {
                let mut conn = PgConnection::connect(url).await.map_err(std::io::Error::other)?;
                for sql in &statements {
                    let sql = AssertSqlSafe(sql.as_str());
                    sqlx::query(sql).execute(&mut conn).await.map_err(std::io::Error::other)?;
                }
            }
            std::io::Result::Ok(())
        })
    });
    // If this fails, the database is removed with the server.
    let _ = dropper.join();
}

/// A PostgreSQL server of one test, which the test may stop, replicate and promote. Dropping it removes the server.
#[derive(Debug)]
pub struct OwnServer {
    directory: TempDir,
    url: String,
}

/// Runs `postgres.sh`. Blocks until the command has ended.
fn script(arguments: &[&OsStr]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../support/postgres.sh");
    Command::new(script).args(arguments).output().expect("postgres.sh runs")
}

/// Runs a command of `postgres.sh` that must succeed, and returns the first line of its output.
async fn run(arguments: Vec<OsString>) -> String {
    let ran = tokio::task::spawn_blocking(move || {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
        script(&arguments)
    });
    let output = ran.await.expect("the command ends");
    assert!(output.status.success(), "postgres.sh: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
}

/// A directory in memory if there is one, as `postgres.sh` takes for its servers.
fn directory() -> TempDir {
    let in_memory = Path::new("/dev/shm");
    let mut builder = tempfile::Builder::new();
    // The server's user has to reach its own directory in it.
    builder.prefix("belvedere-pg-of-test-").permissions(Permissions::from_mode(0o711));
    let made = if in_memory.is_dir() { builder.tempdir_in(in_memory) } else { builder.tempdir() };
    made.expect("a directory is created")
}

impl OwnServer {
    pub async fn start() -> Self {
        Self::start_with(|server| vec!["server".into(), server]).await
    }

    /// A streaming replica of this server, with further settings `NAME=VALUE`.
    pub async fn replica(&self, settings: &[&str]) -> Self {
        Self::start_with(|server| {
            let primary = OsString::from(&self.url);
            let settings = settings.iter().map(OsString::from);
            [OsString::from("replica"), server, primary].into_iter().chain(settings).collect()
        })
        .await
    }

    async fn start_with(arguments: impl FnOnce(OsString) -> Vec<OsString>) -> Self {
        let directory = directory();
        let mut server = Self { directory, url: String::new() };
        server.url = run(arguments(server.path())).await;
        server
    }

    /// Below the temporary directory, because the server's user has to own it.
    fn path(&self) -> OsString {
        self.directory.path().join("server").into_os_string()
    }

    /// The URL of a database of this server.
    pub fn url(&self, database: &str) -> String {
        let (base, _) = self.url.rsplit_once('/').expect("the URL names a database");
        format!("{base}/{database}")
    }

    /// Runs statements in a database.
    pub async fn execute(&self, database: &str, sql: &str) {
        let mut conn = PgConnection::connect(&self.url(database)).await.expect("the server responds");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.expect("the statements succeed");
        conn.close().await.expect("the connection closes");
    }

    /// Sends a signal to all processes of the server, by its name without `SIG`.
    pub async fn signal(&self, name: &str) {
        run(vec!["signal".into(), self.path(), name.into()]).await;
    }

    /// Starts the server on its old port after it has ended.
    pub async fn start_again(&self) {
        run(vec!["again".into(), self.path()]).await;
    }

    /// Makes a replica a primary.
    pub async fn promote(&self) {
        run(vec!["promote".into(), self.path()]).await;
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // Blocks: the directory must not be removed before.
        let _ = script(&[OsStr::new("remove"), &self.path()]);
    }
}
