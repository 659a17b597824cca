//! Settings of the database: URL, pool size, field indexes, scripts' SQL and replicas.

use std::path::Path;
use std::time::Duration;

use clap::Args;

use super::{Problems, Secret, parse};

/// SQLite's readers share the processor with the writer and the scripts; more would only wait for each other.
const SQLITE_CONNECTIONS: u32 = 16;
/// Well below PostgreSQL's default of 100, so that a second instance and an operator's psql fit.
const POSTGRES_CONNECTIONS: u32 = 32;
/// More connections than any PostgreSQL runs well with.
const MAX_CONNECTIONS: u32 = 1000;
/// Half for the writer, half for all readers.
const PAGE_CACHE_MIB: u32 = 96;
/// SQLite's own default for two dozen connections.
const SMALLEST_PAGE_CACHE_MIB: u32 = 16;
/// More memory than the operating system would leave for its own cache of the file.
const LARGEST_PAGE_CACHE_MIB: u32 = 1 << 20;
/// Some 200 bytes each.
const CACHED_ACCOUNTS: usize = 65_536;
/// Batches would look up their own accounts again.
const FEWEST_CACHED_ACCOUNTS: usize = 1_024;
/// Some 20 GB: more accounts than the network has.
const MOST_CACHED_ACCOUNTS: usize = 100_000_000;
/// Each write to a collection also updates the indexes of that collection.
const FIELD_INDEXES: u32 = 32;
/// Some times what a healthy replica needs for a large transaction; a reader hardly notices it.
const READ_MAX_LAG_SECONDS: u64 = 10;
/// The lag is measured every second, so that less would exclude healthy replicas.
const SMALLEST_MAX_LAG_SECONDS: u64 = 3;
/// Readers take an older state for a fault. The server remembers the positions of this time.
const LARGEST_MAX_LAG_SECONDS: u64 = 300;
/// More replicas than one primary feeds. Each is watched by each host.
const MAX_REPLICAS: usize = 16;
/// More would cost writers more than they could ever save readers.
const MAX_FIELD_INDEXES: u32 = 1000;

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Database")]
pub struct DatabaseArgs {
    /// sqlite://PATH or postgres://USER:PASSWORD@HOST/NAME [default: sqlite://DATA_DIR/belvedere.db]
    #[arg(
        long = "database-url",
        env = "DATABASE_URL",
        global = true,
        value_name = "URL",
        hide_env_values = true
    )]
    pub url: Option<String>,
    /// Maximum number of connections in the pool [default: 16 for SQLite, 32 for PostgreSQL]
    #[arg(
        long = "database-max-connections",
        env = "DATABASE_MAX_CONNECTIONS",
        global = true,
        value_name = "COUNT"
    )]
    pub max_connections: Option<String>,
    /// SQLite: MiB of memory for pages of the database, half of it for the writer [default: 96]
    #[arg(long = "database-cache-mib", env = "DATABASE_CACHE_MIB", global = true, value_name = "MIB")]
    pub page_cache: Option<String>,
    /// Number of accounts whose DIDs and ids are kept in memory, about 200 bytes each [default: 65536]
    #[arg(long = "account-cache", env = "ACCOUNT_CACHE", global = true, value_name = "COUNT")]
    pub account_cache: Option<String>,
    /// Maximum number of indexes that the server builds on record fields that queries use often; 0 builds none
    /// [default: 32]
    #[arg(long = "field-index-limit", env = "FIELD_INDEX_LIMIT", global = true, value_name = "COUNT")]
    pub field_index_limit: Option<String>,
    /// PostgreSQL: how scripts' SQL runs. role: as a separate database role that can read nothing else; guarded: as the
    /// server's own role, where only the check of each statement protects the other tables [default: role]
    #[arg(long = "script-sql", env = "SCRIPT_SQL", global = true, value_name = "role|guarded")]
    pub script_sql: Option<String>,
    /// PostgreSQL: postgres://USER:PASSWORD@HOST of a role that you created for scripts' SQL
    /// [default: created by the server]
    #[arg(
        long = "script-database-url",
        env = "SCRIPT_DATABASE_URL",
        global = true,
        value_name = "URL",
        hide_env_values = true
    )]
    pub script_url: Option<String>,
    /// PostgreSQL: URLs of streaming replicas of DATABASE_URL, comma-separated, that answer reads of queries. Set it on
    /// every host of the instance [default: none]
    #[arg(
        long = "database-read-urls",
        env = "DATABASE_READ_URLS",
        global = true,
        value_name = "URLS",
        hide_env_values = true
    )]
    pub read_urls: Option<String>,
    /// Seconds that a replica may be behind; one that is further behind answers no reads [default: 10]
    #[arg(
        long = "database-read-max-lag-seconds",
        env = "DATABASE_READ_MAX_LAG_SECONDS",
        global = true,
        value_name = "SECONDS"
    )]
    pub read_max_lag: Option<String>,
}

/// The streaming replicas that answer reads.
#[derive(Clone, Default)]
pub struct Replicas {
    /// May contain passwords: `Debug` leaves them out.
    pub urls: Vec<String>,
    /// One that is further behind is not used.
    pub max_lag: Duration,
}

impl std::fmt::Debug for Replicas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.urls.len();
        f.debug_struct("Replicas").field("count", &count).field("max_lag", &self.max_lag).finish()
    }
}

/// How scripts' SQL connects to PostgreSQL.
#[derive(Clone, Debug)]
pub enum ScriptSql {
    /// As a role that the server creates.
    OwnRole,
    /// As the role that this URL names.
    Address(Secret<String>),
    /// As the server's own role.
    Guarded,
}

#[derive(Clone)]
pub struct Database {
    /// May contain a password: `Debug` redacts it.
    pub url: String,
    /// Whether `url` is the default, because `DATABASE_URL` is not set.
    pub is_default: bool,
    pub max_connections: u32,
    /// SQLite: memory for pages of the database.
    pub page_cache_mib: u32,
    /// Accounts whose DIDs and ids are kept in memory.
    pub cached_accounts: usize,
    /// 0: no index is built, and existing ones are dropped.
    pub field_index_limit: u32,
    pub script_sql: ScriptSql,
    pub replicas: Replicas,
}

impl DatabaseArgs {
    pub(super) fn check(self, data_dir: &Path, problems: &mut Problems) -> Database {
        let given = parse::text(self.url);
        let is_default = given.is_none();
        let url = given.unwrap_or_else(|| format!("sqlite://{}", data_dir.join("belvedere.db").display()));
        let is_postgres = is_postgres(&url);
        if !is_postgres && !url.starts_with("sqlite:") {
            // The URL may contain a password, so the message names only its scheme.
            let scheme = url.split_once("://").map_or("(no scheme)", |(scheme, _)| scheme);
            problems.add(
                "DATABASE_URL",
                format!(
                    "{scheme} is not supported: write sqlite://PATH or postgres://USER:PASSWORD@HOST/NAME"
                ),
            );
        }
        let max_connections = parse::number(
            "DATABASE_MAX_CONNECTIONS",
            self.max_connections,
            default_connections(&url),
            1..=MAX_CONNECTIONS,
            problems,
        );
        let page_cache_mib = parse::number(
            "DATABASE_CACHE_MIB",
            self.page_cache,
            PAGE_CACHE_MIB,
            SMALLEST_PAGE_CACHE_MIB..=LARGEST_PAGE_CACHE_MIB,
            problems,
        );
        let cached_accounts = parse::number(
            "ACCOUNT_CACHE",
            self.account_cache,
            CACHED_ACCOUNTS,
            FEWEST_CACHED_ACCOUNTS..=MOST_CACHED_ACCOUNTS,
            problems,
        );
        let field_index_limit = parse::number(
            "FIELD_INDEX_LIMIT",
            self.field_index_limit,
            FIELD_INDEXES,
            0..=MAX_FIELD_INDEXES,
            problems,
        );
        let script_sql = script_sql(self.script_sql, self.script_url, problems);
        let replicas = replicas(self.read_urls, self.read_max_lag, is_postgres, problems);
        Database {
            url,
            is_default,
            max_connections,
            page_cache_mib,
            cached_accounts,
            field_index_limit,
            script_sql,
            replicas,
        }
    }
}

fn default_connections(url: &str) -> u32 {
    if is_postgres(url) { POSTGRES_CONNECTIONS } else { SQLITE_CONNECTIONS }
}

fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

fn replicas(
    urls: Option<String>,
    max_lag: Option<String>,
    has_postgres: bool,
    problems: &mut Problems,
) -> Replicas {
    const VARIABLE: &str = "DATABASE_READ_URLS";
    let urls = parse::list(urls);
    let seconds = parse::number(
        "DATABASE_READ_MAX_LAG_SECONDS",
        max_lag,
        READ_MAX_LAG_SECONDS,
        SMALLEST_MAX_LAG_SECONDS..=LARGEST_MAX_LAG_SECONDS,
        problems,
    );
    if !urls.is_empty() && !has_postgres {
        let text = "SQLite has no replicas: set DATABASE_URL to the PostgreSQL server that they follow, or unset this";
        problems.add(VARIABLE, text.to_owned());
    }
    // The URLs may contain passwords, so the messages name their places.
    for (n, url) in urls.iter().enumerate().map(|(n, url)| (n + 1, url)) {
        let is_valid = is_postgres(url) && url::Url::parse(url).is_ok();
        if !is_valid {
            problems.add(VARIABLE, format!("URL {n} is invalid: write postgres://USER:PASSWORD@HOST/NAME"));
        } else if urls.iter().take(n - 1).any(|other| other == url) {
            problems.add(VARIABLE, format!("URL {n} is there twice: write each replica once"));
        }
    }
    if urls.len() > MAX_REPLICAS {
        problems.add(VARIABLE, format!("it names {} replicas; write at most {MAX_REPLICAS}", urls.len()));
    }
    Replicas { urls, max_lag: Duration::from_secs(seconds) }
}

fn script_sql(how: Option<String>, url: Option<String>, problems: &mut Problems) -> ScriptSql {
    let url = parse::text(url);
    match (parse::text(how).as_deref(), url) {
        (Some("guarded"), None) => ScriptSql::Guarded,
        (Some("guarded"), Some(_)) => {
            problems.add(
                "SCRIPT_SQL",
                "guarded can't be combined with SCRIPT_DATABASE_URL: remove one of them".to_owned(),
            );
            ScriptSql::Guarded
        }
        (None | Some("role"), None) => ScriptSql::OwnRole,
        (None | Some("role"), Some(url)) => {
            let names_a_role = url::Url::parse(&url).is_ok_and(|url| {
                ["postgres", "postgresql"].contains(&url.scheme()) && !url.username().is_empty()
            });
            if !names_a_role {
                problems.add("SCRIPT_DATABASE_URL", "write postgres://USER:PASSWORD@HOST".to_owned());
            }
            ScriptSql::Address(Secret::new(url))
        }
        (Some(_), _) => {
            problems.add("SCRIPT_SQL", "write role or guarded".to_owned());
            ScriptSql::OwnRole
        }
    }
}

impl Database {
    pub fn is_postgres(&self) -> bool {
        is_postgres(&self.url)
    }

    /// The same settings for another database, which does not have the replicas of this one.
    pub fn moved_to(self, url: String) -> Self {
        let has_default = self.max_connections == default_connections(&self.url);
        let max_connections = if has_default { default_connections(&url) } else { self.max_connections };
        let replicas = Replicas { urls: Vec::new(), ..self.replicas };
        Self { url, max_connections, replicas, ..self }
    }

    /// The URL with its password redacted, for display.
    pub fn redacted_url(&self) -> String {
        self.with_password(Some("…")).unwrap_or_else(|| self.url.clone())
    }

    /// The URL without its password, and whether it has one.
    pub fn url_without_password(&self) -> (String, bool) {
        self.with_password(None).map_or_else(|| (self.url.clone(), false), |url| (url, true))
    }

    /// The URL with another password, or with none; `None` if it has no password. PostgreSQL also accepts one in the
    /// query.
    pub fn with_password(&self, password: Option<&str>) -> Option<String> {
        let mut url = url::Url::parse(&self.url).ok()?;
        let is_password = |name: &str| name == "password";
        let in_query = url.query_pairs().any(|(name, _)| is_password(&name));
        if url.password().is_none() && !in_query {
            return None;
        }
        if url.password().is_some() {
            // Fails only for URLs that can't have a password at all.
            let _ = url.set_password(password);
        }
        if in_query {
            let options: Vec<(String, String)> = url.query_pairs().into_owned().collect();
            url.set_query(None);
            for (name, value) in options {
                match (is_password(&name), password) {
                    (true, None) => {}
                    (true, Some(password)) => drop(url.query_pairs_mut().append_pair(&name, password)),
                    (false, _) => drop(url.query_pairs_mut().append_pair(&name, &value)),
                }
            }
        }
        Some(url.to_string().replace("%E2%80%A6", "…"))
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("url", &self.redacted_url())
            .field("is_default", &self.is_default)
            .field("max_connections", &self.max_connections)
            .field("page_cache_mib", &self.page_cache_mib)
            .field("cached_accounts", &self.cached_accounts)
            .field("field_index_limit", &self.field_index_limit)
            .field("script_sql", &self.script_sql)
            .field("replicas", &self.replicas)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str) -> (Database, Problems) {
        let mut problems = Problems::default();
        let args = DatabaseArgs { url: Some(url.to_owned()), ..DatabaseArgs::default() };
        (args.check(Path::new("data"), &mut problems), problems)
    }

    #[test]
    fn the_pool_size_depends_on_the_database() {
        assert_eq!(check("sqlite::memory:").0.max_connections, SQLITE_CONNECTIONS);
        assert_eq!(check("postgresql://db/x").0.max_connections, POSTGRES_CONNECTIONS);
    }

    #[test]
    fn scripts_use_a_separate_role_by_default() {
        let check = |how: Option<&str>, url: Option<&str>| {
            let mut problems = Problems::default();
            let found = script_sql(how.map(str::to_owned), url.map(str::to_owned), &mut problems);
            problems.into_result(found).ok()
        };
        assert!(matches!(check(None, None), Some(ScriptSql::OwnRole)));
        assert!(matches!(check(Some("guarded"), None), Some(ScriptSql::Guarded)));
        assert!(matches!(check(None, Some("postgres://lua:x@db")), Some(ScriptSql::Address(_))));
        assert!(check(Some("off"), None).is_none());
        assert!(check(None, Some("postgres://db")).is_none());
        assert!(check(Some("guarded"), Some("postgres://lua@db")).is_none());
    }

    #[test]
    fn replicas_need_postgres_and_valid_urls() {
        let check = |urls: &str, lag: Option<&str>, has_postgres| {
            let mut problems = Problems::default();
            let lag = lag.map(str::to_owned);
            let found = replicas(Some(urls.to_owned()), lag, has_postgres, &mut problems);
            (found, problems.into_result(()).err().map_or_else(String::new, |error| error.to_string()))
        };
        let (found, problems) = check("postgres://a/x, postgresql://b/x", None, true);
        assert_eq!((found.urls.len(), found.max_lag, &*problems), (2, Duration::from_secs(10), ""));
        assert!(check("postgres://a/x", None, false).1.contains("SQLite has no replicas"));
        assert_eq!(check("", None, false).1, "");
        for bad in ["mysql://me:hunter2@a/x", "a/x", "postgres://me:hunter2@:x"] {
            let problems = check(bad, None, true).1;
            assert!(problems.contains("URL 1 is invalid") && !problems.contains("hunter2"), "{problems}");
        }
        assert!(check("postgres://a/x,postgres://a/x", None, true).1.contains("URL 2 is there twice"));
        assert_eq!(check("", Some("3"), true).1, "");
        for bad in ["2", "301", "x"] {
            assert!(check("", Some(bad), true).1.contains("from 3 to 300"), "{bad}");
        }
        let many: Vec<String> = (0..=MAX_REPLICAS).map(|n| format!("postgres://h{n}/x")).collect();
        assert!(check(&many.join(","), None, true).1.contains("at most 16"));
        let secret = check("postgres://me:hunter2@a/x", None, true).0;
        assert!(!format!("{secret:?}").contains("hunter2"));
    }

    #[test]
    fn the_password_is_never_shown() {
        let (database, _) = check("postgres://me:hunter2@db/x");
        assert_eq!(database.redacted_url(), "postgres://me:…@db/x");
        assert!(!format!("{database:?}").contains("hunter2"));
        let (database, _) = check("postgres://db/x?user=me&password=hunter2");
        assert_eq!(database.redacted_url(), "postgres://db/x?user=me&password=…");
        assert_eq!(database.url_without_password(), ("postgres://db/x?user=me".to_owned(), true));
        let (database, _) = check("postgres://me@db/x");
        assert_eq!(database.url_without_password(), ("postgres://me@db/x".to_owned(), false));
        let (_, problems) = check("mysql://me:hunter2@db/x");
        assert!(problems.iter().count() == 1 && !problems.to_string().contains("hunter2"));
    }
}
