//! Databases of a PostgreSQL server that are made for a short time, beside those of others: for tests of scripts.

use std::str::FromStr as _;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgPool};
use url::Url;

use super::StoreError;

/// Connections that create and drop databases: PostgreSQL makes one at a time.
const CONNECTIONS: u32 = 2;

/// Makes databases whose names begin with a prefix.
#[derive(Debug)]
pub struct TemporaryDatabases {
    pool: PgPool,
    url: Url,
    prefix: String,
}

impl TemporaryDatabases {
    /// `url` is that of any database of the server, in which nothing changes; its role must be allowed to create databases.
    /// `id` tells these databases from those of other processes: lower case letters and digits.
    ///
    /// # Errors
    /// When the server can't be reached.
    pub async fn connect(url: &str, id: &str) -> Result<Self, StoreError> {
        let open = |error: &dyn std::fmt::Display| StoreError::Open(error.to_string());
        let parsed = Url::parse(url).map_err(|error| open(&error))?;
        if !matches!(parsed.scheme(), "postgres" | "postgresql") {
            return Err(StoreError::Open("the URL must begin with postgres:".to_owned()));
        }
        let options = PgConnectOptions::from_str(url).map_err(|error| open(&error))?;
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect_with(options);
        let pool = pool.await.map_err(|error| open(&error))?;
        Ok(Self { pool, url: parsed, prefix: format!("belvedere_test_{id}") })
    }

    /// The URL of a database of this name.
    pub fn url(&self, name: &str) -> String {
        let mut url = self.url.clone();
        url.set_path(&self.full_name(name));
        url.into()
    }

    /// Creates a database: an empty one, or a copy of another to which nothing is connected.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn create(&self, name: &str, template: Option<&str>) -> Result<(), StoreError> {
        let template = template.map(|name| format!(" TEMPLATE {}", self.full_name(name)));
        let sql = format!("CREATE DATABASE {}{}", self.full_name(name), template.unwrap_or_default());
        sqlx::query(AssertSqlSafe(sql)).execute(&self.pool).await?;
        Ok(())
    }

    /// Drops a database, if there is one.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn drop(&self, name: &str) -> Result<(), StoreError> {
        let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.full_name(name));
        sqlx::query(AssertSqlSafe(sql)).execute(&self.pool).await?;
        Ok(())
    }

    /// The name of a database on the server.
    pub fn full_name(&self, name: &str) -> String {
        let plain = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
        format!("{}_{}", self.prefix, plain(name))
    }
}

#[cfg(test)]
mod tests {
    use belvedere_standins::database::Database;

    use super::*;
    use crate::store::{Db, lexicons};

    #[tokio::test]
    async fn a_copy_has_what_its_template_had_and_the_servers_database_stays() {
        let server = Database::postgres().await;
        let databases = TemporaryDatabases::connect(&server.url, "a1").await.unwrap();
        databases.create("template", None).await.unwrap();
        let db = Db::open(&databases.url("template"), 2).await.unwrap();
        db.migrate().await.unwrap();
        db.close().await;
        databases.create("case1", Some("template")).await.unwrap();
        let copy = Db::open(&databases.url("case1"), 2).await.unwrap();
        assert!(lexicons::list(&copy).await.unwrap().is_empty(), "the schema is there");
        copy.close().await;
        for name in ["case1", "template"] {
            databases.drop(name).await.unwrap();
        }
        assert!(Db::open(&databases.url("case1"), 2).await.is_err());
        let refused = TemporaryDatabases::connect("sqlite://a.db", "a1").await.unwrap_err();
        assert!(refused.to_string().contains("postgres:"), "{refused}");
    }
}
