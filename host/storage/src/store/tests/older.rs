//! Databases of an older version, and sessions of PostgreSQL that wait while they are migrated.

use belvedere_standins::database::Database;
use sqlx::migrate::Migrator;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, SqlitePool};

use crate::store::{Db, POSTGRES_MIGRATIONS, SQLITE_MIGRATIONS};

fn before(migrations: &Migrator, version: i64) -> Migrator {
    let before = migrations.iter().filter(|migration| migration.version < version).cloned();
    Migrator::with_migrations(before.collect())
}

/// A database as it was before the migration with this number, after the statements.
pub async fn sqlite(version: i64, statements: &str) -> Database {
    let database = Database::new_sqlite();
    drop(Db::open(&database.url, 1).await.unwrap());
    let pool = SqlitePool::connect(&database.url).await.unwrap();
    before(&SQLITE_MIGRATIONS, version).run(&pool).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(&pool).await.unwrap();
    pool.close().await;
    database
}

/// Like [`sqlite`].
pub async fn postgres(version: i64, statements: &str) -> Database {
    let database = Database::new_postgres().await;
    let pool = PgPool::connect(&database.url).await.unwrap();
    before(&POSTGRES_MIGRATIONS, version).run(&pool).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(&pool).await.unwrap();
    pool.close().await;
    database
}

/// The only value of the statement's row.
pub async fn one<T>(conn: &mut PgConnection, sql: &str) -> T
where
    T: Send + Unpin + for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    let query = sqlx::query_scalar(AssertSqlSafe(sql)).persistent(false);
    query.fetch_one(conn).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Waits until a session waits for a lock in this mode on the table, and returns its process id.
pub async fn waiting(conn: &mut PgConnection, table: &str, mode: &str) -> i32 {
    let sql = format!(
        "SELECT max(l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
         WHERE d.datname = current_database() AND NOT l.granted AND l.mode = '{mode}' \
             AND l.relation = to_regclass('{table}')"
    );
    loop {
        if let Some(pid) = one::<Option<i32>>(conn, &sql).await {
            return pid;
        }
        tokio::task::yield_now().await;
    }
}
