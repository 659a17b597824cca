//! Runs statements of PostgreSQL that are written for one call, as those that define tables and roles.

use sqlx::{AssertSqlSafe, PgConnection};

pub(super) async fn run(connection: &mut PgConnection, sql: String) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.map(drop)
}
