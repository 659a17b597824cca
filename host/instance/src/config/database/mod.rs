//! Settings of the database: URL, pool size, field indexes, scripts' SQL and replicas.

mod replicas;
mod script_sql;
mod shards;

use std::path::Path;

use clap::Args;

use self::replicas::{MAX_LAG, replicas};
use self::script_sql::script_sql;
use self::shards::wants_shards;
use super::{NumberSetting, Problems, parse};

pub use self::replicas::Replicas;
pub use self::script_sql::ScriptSql;

/// SQLite's readers share the processor with the writer and the scripts; more would only wait for each other.
const SQLITE_CONNECTIONS: u32 = 16;
/// Well below PostgreSQL's default of 100, so that a second instance and an operator's psql fit.
const POSTGRES_CONNECTIONS: u32 = 32;
/// More connections than any PostgreSQL runs well with.
const MAX_CONNECTIONS: u32 = 1000;

/// At least 8 MiB for the writer and 512 KiB for each of 16 readers; at most a terabyte, which is more memory than a
/// machine that runs SQLite has.
const PAGE_CACHE_MIB: NumberSetting<u32> = NumberSetting {
    variable: "DATABASE_CACHE_MIB",
    default: 96,
    range: 16..=1 << 20,
    about: "SQLite: MiB of memory for pages of the database, half of it for the writer",
};

/// With fewer, batches would look up their own accounts again. The maximum takes some 20 GB: more accounts than the
/// network has.
const CACHED_ACCOUNTS: NumberSetting<usize> = NumberSetting {
    variable: "ACCOUNT_CACHE",
    default: 65_536,
    range: 1_024..=100_000_000,
    about: "Number of accounts whose DIDs and ids are kept in memory, about 200 bytes each",
};

/// Each write to a collection also updates the indexes of that collection. More than the maximum would cost writers more
/// than they could ever save readers.
const FIELD_INDEXES: NumberSetting<u32> = NumberSetting {
    variable: "FIELD_INDEX_LIMIT",
    default: 32,
    range: 0..=1000,
    about: "Maximum number of indexes that the server builds on record fields that queries use often; 0 builds none",
};

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
    #[arg(long = "database-cache-mib", env = PAGE_CACHE_MIB.variable, help = PAGE_CACHE_MIB.help(), global = true,
        value_name = "MIB")]
    pub page_cache: Option<String>,
    #[arg(long = "account-cache", env = CACHED_ACCOUNTS.variable, help = CACHED_ACCOUNTS.help(), global = true,
        value_name = "COUNT")]
    pub account_cache: Option<String>,
    #[arg(long = "field-index-limit", env = FIELD_INDEXES.variable, help = FIELD_INDEXES.help(), global = true,
        value_name = "COUNT")]
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
    #[arg(long = "database-read-max-lag-seconds", env = MAX_LAG.variable, help = MAX_LAG.help(), global = true,
        value_name = "SECONDS")]
    pub read_max_lag: Option<String>,
    /// PostgreSQL: citus distributes a new database over the nodes of its cluster [default: none]
    #[arg(long = "database-shards", env = "DATABASE_SHARDS", global = true, value_name = "citus")]
    pub shards: Option<String>,
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
    /// Whether a new database is distributed over the nodes of its cluster.
    pub wants_shards: bool,
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
        let page_cache_mib = PAGE_CACHE_MIB.read(self.page_cache, problems);
        let cached_accounts = CACHED_ACCOUNTS.read(self.account_cache, problems);
        let field_index_limit = FIELD_INDEXES.read(self.field_index_limit, problems);
        let script_sql = script_sql(self.script_sql, self.script_url, problems);
        let replicas = replicas(self.read_urls, self.read_max_lag, is_postgres, problems);
        let wants_shards = wants_shards(self.shards, is_postgres, problems);
        Database {
            url,
            is_default,
            max_connections,
            page_cache_mib,
            cached_accounts,
            field_index_limit,
            script_sql,
            replicas,
            wants_shards,
        }
    }
}

fn default_connections(url: &str) -> u32 {
    if is_postgres(url) { POSTGRES_CONNECTIONS } else { SQLITE_CONNECTIONS }
}

fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

impl Database {
    pub fn is_postgres(&self) -> bool {
        is_postgres(&self.url)
    }

    /// The same settings for another database, which does not have the replicas and shards of this one.
    #[must_use]
    pub fn moved_to(self, url: String) -> Self {
        let has_default = self.max_connections == default_connections(&self.url);
        let max_connections = if has_default { default_connections(&url) } else { self.max_connections };
        let replicas = Replicas { urls: Vec::new(), ..self.replicas };
        Self { url, max_connections, replicas, wants_shards: false, ..self }
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
            .field("wants_shards", &self.wants_shards)
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
