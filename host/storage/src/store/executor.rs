//! Runs single statements on the connections of a pool, and repeats a read whose connection turns out to be lost.
//!
//! A connection that the server closed while it was idle fails the first statement that is sent on it. A read can be
//! repeated on another connection without harm, so that no caller notices a restart of the database. A write is not
//! repeated: the server may have committed it before the connection was lost.
//!
//! A read on another server (a replica, or a node with shards) that fails, or waits for one that is not used any more, runs on the primary.
//! There a statement is given up that waits for a node which is lost.

use std::fmt;
use std::future::pending;
use std::ops::DerefMut;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use sqlx::error::BoxDynError;
use sqlx::{Connection, Database, Either, Execute, Executor, SqlStr};

use super::lost::is_lost;

/// A pool of connections.
pub(super) trait ConnectionPool: Send + Sync {
    type Connection: Connection;
    type Guard<'a>: DerefMut<Target = Self::Connection> + Send
    where
        Self: 'a;

    fn acquire(&self) -> impl Future<Output = Result<Self::Guard<'_>, sqlx::Error>> + Send;

    /// A connection for a statement that failed on another server. By default as [`Self::acquire`].
    fn acquire_primary(&self) -> impl Future<Output = Result<Self::Guard<'_>, sqlx::Error>> + Send {
        self.acquire()
    }

    /// Ends when the statement that runs on a connection must not be waited for any longer, with the error for its caller. By default
    /// never.
    fn given_up(_lent: &Self::Guard<'_>) -> impl Future<Output = sqlx::Error> + Send + use<Self> {
        pending()
    }

    /// Called after a statement has succeeded and all its rows were read.
    fn release(acquired: Self::Guard<'_>);

    /// Called when a connection was found lost: those that have been idle since must not be used.
    fn lost(&self);

    /// Called after a statement has failed. Drops its connection.
    fn failed(&self, acquired: Self::Guard<'_>, error: &sqlx::Error) -> Remedy {
        drop(acquired);
        if !is_lost(error) {
            return Remedy::None;
        }
        self.lost();
        Remedy::NewConnection
    }
}

/// The remedy for a failed statement that only reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    None,
    /// The connection was lost: the statement runs once more on another one.
    NewConnection,
    /// The statement ran on another server: it runs on the primary, as if it had not run yet.
    Primary,
}

/// Waits for a statement until it is given up.
async fn unless_given_up<T>(
    given_up: impl Future<Output = sqlx::Error>,
    statement: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    tokio::select! {
        biased;
        result = statement => result,
        error = given_up => Err(error),
    }
}

type DatabaseOf<L> = <<L as ConnectionPool>::Connection as Connection>::Database;

/// Runs each statement on a connection of a pool.
pub(super) struct Statements<'p, L> {
    pub(super) pool: &'p L,
    /// Whether a statement runs once more when its connection was lost.
    repeat: bool,
}

impl<'p, L> Statements<'p, L> {
    /// `repeat`: whether the statements only read, and the connections may get lost.
    pub(super) fn new(pool: &'p L, repeat: bool) -> Self {
        Self { pool, repeat }
    }
}

impl<L> Clone for Statements<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Statements<'_, L> {}

impl<L> fmt::Debug for Statements<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statements").field("repeat", &self.repeat).finish_non_exhaustive()
    }
}

/// A statement with its arguments, which can be sent more than once.
struct Statement<DB: Database> {
    sql: SqlStr,
    arguments: Option<DB::Arguments>,
    persistent: bool,
}

impl<DB: Database> Statement<DB> {
    fn of<'q>(mut query: impl Execute<'q, DB>) -> Result<Self, sqlx::Error> {
        let persistent = query.persistent();
        let arguments = query.take_arguments().map_err(sqlx::Error::Encode)?;
        Ok(Self { sql: query.sql(), arguments, persistent })
    }

    fn copy(&self) -> Self
    where
        DB::Arguments: Clone,
    {
        Self { sql: self.sql.clone(), arguments: self.arguments.clone(), persistent: self.persistent }
    }
}

impl<DB: Database> Execute<'_, DB> for Statement<DB> {
    fn sql(self) -> SqlStr {
        self.sql
    }

    fn statement(&self) -> Option<&DB::Statement> {
        None
    }

    fn take_arguments(&mut self) -> Result<Option<DB::Arguments>, BoxDynError> {
        Ok(self.arguments.take())
    }

    fn persistent(&self) -> bool {
        self.persistent
    }
}

/// Runs a statement, and again if it may be repeated and another connection can help.
macro_rules! run {
    ($statements:expr, $query:expr, |$connection:ident, $statement:ident| $body:expr) => {{
        let (Self { pool, repeat }, statement) = ($statements, Statement::of($query));
        async move {
            let mut $statement = statement?;
            let mut second = repeat.then(|| $statement.copy());
            let mut acquired = pool.acquire().await?;
            loop {
                let given_up = L::given_up(&acquired);
                let $connection = &mut *acquired;
                match unless_given_up(given_up, async { $body }).await {
                    Ok(value) => {
                        L::release(acquired);
                        return Ok(value);
                    }
                    Err(error) => {
                        let remedy = pool.failed(acquired, &error);
                        let again = match remedy {
                            Remedy::None => None,
                            Remedy::NewConnection => second.take(),
                            Remedy::Primary => second.as_ref().map(Statement::copy),
                        };
                        let Some(again) = again else { return Err(error) };
                        tracing::debug!(%error, ?remedy, "a read is repeated on another database connection");
                        $statement = again;
                        acquired = match remedy {
                            Remedy::Primary => pool.acquire_primary().await?,
                            Remedy::None | Remedy::NewConnection => pool.acquire().await?,
                        };
                    }
                }
            }
        }
    }};
}

impl<'p, L: ConnectionPool> Executor<'p> for Statements<'p, L>
where
    for<'c> &'c mut L::Connection: Executor<'c, Database = DatabaseOf<L>>,
    <DatabaseOf<L> as Database>::Arguments: Clone,
{
    type Database = DatabaseOf<L>;

    /// Reads all rows before it returns the first: a statement that has returned rows could not be repeated.
    fn fetch_many<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxStream<
        'e,
        Result<
            Either<<Self::Database as Database>::QueryResult, <Self::Database as Database>::Row>,
            sqlx::Error,
        >,
    >
    where
        'p: 'e,
        E: 'q + Execute<'q, Self::Database>,
    {
        let all = run!(self, query, |connection, statement| {
            connection.fetch_many(statement).try_collect::<Vec<_>>().await
        });
        stream::once(all).map_ok(|all| stream::iter(all.into_iter().map(Ok))).try_flatten().boxed()
    }

    fn fetch_all<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxFuture<'e, Result<Vec<<Self::Database as Database>::Row>, sqlx::Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Self::Database>,
    {
        Box::pin(run!(self, query, |connection, statement| connection.fetch_all(statement).await))
    }

    fn fetch_optional<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxFuture<'e, Result<Option<<Self::Database as Database>::Row>, sqlx::Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Self::Database>,
    {
        Box::pin(run!(self, query, |connection, statement| connection.fetch_optional(statement).await))
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [<Self::Database as Database>::TypeInfo],
    ) -> BoxFuture<'e, Result<<Self::Database as Database>::Statement, sqlx::Error>>
    where
        'p: 'e,
    {
        Box::pin(async move { self.pool.acquire().await?.prepare_with(sql, parameters).await })
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<sqlx::Describe<Self::Database>, sqlx::Error>>
    where
        'p: 'e,
    {
        Box::pin(async move { self.pool.acquire().await?.describe(sql).await })
    }
}
