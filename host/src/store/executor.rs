//! Runs single statements on the connections of a pool, and repeats a read whose connection turns out to be lost.
//!
//! A connection that the server closed while it was idle fails the first statement that is sent on it. A read can be
//! repeated on another connection without harm, so that no caller notices a restart of the database. A write is not
//! repeated: the server may have committed it before the connection was lost.

use std::fmt;
use std::ops::DerefMut;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use sqlx::error::BoxDynError;
use sqlx::{Connection, Database, Either, Execute, Executor, SqlStr};

use super::lost::is_lost;

/// A pool of connections.
pub(super) trait Lender: Send + Sync {
    type Connection: Connection;
    type Lent<'a>: DerefMut<Target = Self::Connection> + Send
    where
        Self: 'a;

    fn lend(&self) -> impl Future<Output = Result<Self::Lent<'_>, sqlx::Error>> + Send;

    /// Called after a statement has succeeded and all its rows were read.
    fn give_back(lent: Self::Lent<'_>);

    /// Called when a connection was found lost: those that have been idle since must not be lent.
    fn lost(&self);
}

type DatabaseOf<L> = <<L as Lender>::Connection as Connection>::Database;

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

/// Runs a statement, and once more if it may be repeated and its connection was lost.
macro_rules! run {
    ($statements:expr, $query:expr, |$connection:ident, $statement:ident| $body:expr) => {{
        let (Self { pool, repeat }, statement) = ($statements, Statement::of($query));
        async move {
            let mut $statement = statement?;
            let mut second = repeat.then(|| $statement.copy());
            loop {
                let mut lent = pool.lend().await?;
                let $connection = &mut *lent;
                match $body {
                    Ok(value) => {
                        L::give_back(lent);
                        return Ok(value);
                    }
                    Err(error) => {
                        drop(lent);
                        if !is_lost(&error) {
                            return Err(error);
                        }
                        pool.lost();
                        tracing::debug!(%error, repeated = second.is_some(), "a database connection was lost");
                        let Some(again) = second.take() else { return Err(error) };
                        $statement = again;
                    }
                }
            }
        }
    }};
}

impl<'p, L: Lender> Executor<'p> for Statements<'p, L>
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
        Box::pin(async move { self.pool.lend().await?.prepare_with(sql, parameters).await })
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<sqlx::Describe<Self::Database>, sqlx::Error>>
    where
        'p: 'e,
    {
        Box::pin(async move { self.pool.lend().await?.describe(sql).await })
    }
}
