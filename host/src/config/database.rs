//! Settings of the database: URL, pool size, field indexes and scripts' SQL.

use std::path::Path;

use clap::Args;

use super::{Problems, Secret, parse};

/// SQLite's readers share the processor with the writer and the scripts; more would only wait for each other.
const SQLITE_CONNECTIONS: u32 = 16;
/// Well below PostgreSQL's default of 100, so that a second instance and an operator's psql fit.
const POSTGRES_CONNECTIONS: u32 = 32;
/// More connections than any PostgreSQL runs well with.
const MAX_CONNECTIONS: u32 = 1000;
/// Each write to a collection also updates the indexes of that collection.
const FIELD_INDEXES: u32 = 32;
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
    /// 0: no index is built, and existing ones are dropped.
    pub field_index_limit: u32,
    pub script_sql: ScriptSql,
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
        let field_index_limit = parse::number(
            "FIELD_INDEX_LIMIT",
            self.field_index_limit,
            FIELD_INDEXES,
            0..=MAX_FIELD_INDEXES,
            problems,
        );
        let script_sql = script_sql(self.script_sql, self.script_url, problems);
        Database { url, is_default, max_connections, field_index_limit, script_sql }
    }
}

fn default_connections(url: &str) -> u32 {
    if is_postgres(url) { POSTGRES_CONNECTIONS } else { SQLITE_CONNECTIONS }
}

fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
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

    /// The same settings for another database.
    pub fn moved_to(self, url: String) -> Self {
        let has_default = self.max_connections == default_connections(&self.url);
        let max_connections = if has_default { default_connections(&url) } else { self.max_connections };
        Self { url, max_connections, ..self }
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
            .field("field_index_limit", &self.field_index_limit)
            .field("script_sql", &self.script_sql)
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
