//! Lends connections of the main pool for single statements.
//!
//! In a database in shards a statement may wait at the coordinator for a node that is lost, for as long as the kernel of the node's machine
//! answers in its place. Such a statement is given up, and its connection closed: returned to the pool it would be pinged, and keep its
//! place for as long.

use std::fmt;
use std::future::pending;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use sqlx::PgConnection;
use sqlx::pool::PoolConnection;
use tokio::time::{Instant, interval_at};

use super::Postgres;
use super::nodes::Nodes;
use crate::store::executor::ConnectionPool;
use crate::store::lost::NodeLost;
use crate::store::read_pool::PROBE_EVERY;

/// Time that a statement has while a node is lost. Those that don't wait for it take milliseconds.
const STATEMENT_LIMIT: Duration = Duration::from_secs(2);

/// A connection of the main pool. [`ConnectionPool::release`] returns it.
pub(in crate::store) struct LentConnection {
    // Taken only by `release` and `drop`.
    connection: Option<PoolConnection<sqlx::Postgres>>,
    /// `None` for a database that is not in shards.
    nodes: Option<Arc<Nodes>>,
}

impl Drop for LentConnection {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && self.nodes.as_ref().is_some_and(|nodes| nodes.have_lost())
        {
            // Its statement may still be running.
            let _closed = connection.detach();
        }
    }
}

impl Deref for LentConnection {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.connection.as_ref().expect("a connection is present until it is returned")
    }
}

impl DerefMut for LentConnection {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.connection.as_mut().expect("a connection is present until it is returned")
    }
}

impl fmt::Debug for LentConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LentConnection")
    }
}

impl ConnectionPool for Postgres {
    type Connection = PgConnection;
    type Guard<'a> = LentConnection;

    async fn acquire(&self) -> Result<Self::Guard<'_>, sqlx::Error> {
        let connection = Some(self.pool.acquire().await?);
        Ok(LentConnection { connection, nodes: self.nodes.clone() })
    }

    fn given_up(lent: &Self::Guard<'_>) -> impl Future<Output = sqlx::Error> + Send + use<> {
        let nodes = lent.nodes.clone();
        async move {
            let Some(nodes) = nodes else { return pending().await };
            let mut looks = interval_at(Instant::now() + STATEMENT_LIMIT, PROBE_EVERY);
            loop {
                looks.tick().await;
                if nodes.have_lost() {
                    return NodeLost.into();
                }
            }
        }
    }

    fn release(mut acquired: Self::Guard<'_>) {
        drop(acquired.connection.take());
    }

    fn lost(&self) {
        self.losses.record();
    }
}

#[cfg(test)]
mod tests {
    use belvedere_standins::postgres;

    use super::*;
    use crate::store::{Db, StoreError};

    #[tokio::test]
    async fn a_statement_that_waits_while_a_node_is_lost_is_given_up() {
        let url = postgres::create_database().await;
        let Db::Postgres(mut db) = Db::open(&url, 1).await.unwrap() else { panic!("{url} is PostgreSQL") };
        let nodes = Arc::new(Nodes::with_one(&db, &url));
        db.nodes = Some(Arc::clone(&nodes));
        let waiting = "SELECT pg_sleep(600)";
        nodes.set_lost(true);
        // The pool has one connection.
        for _ in 0..2 {
            let error = StoreError::from(sqlx::query(waiting).execute(db.reader()).await.unwrap_err());
            assert_eq!(belvedere_web::http::Error::from(error).status, 503);
            sqlx::query("SELECT 1").execute(db.reader()).await.unwrap();
        }
        // Its caller is gone.
        let left = sqlx::query(waiting).execute(db.writer());
        tokio::time::timeout(Duration::from_millis(50), left).await.unwrap_err();
        sqlx::query("SELECT 1").execute(db.reader()).await.unwrap();

        nodes.set_lost(false);
        let longer = format!("SELECT pg_sleep({})", STATEMENT_LIMIT.as_secs_f64() + 0.5);
        sqlx::query(sqlx::AssertSqlSafe(longer)).execute(db.reader()).await.unwrap();
        db.close().await;
        postgres::drop_database(&url);
    }
}
