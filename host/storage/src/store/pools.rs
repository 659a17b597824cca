//! Macros that evaluate the same code on the connections of either database.

/// Evaluates the same code with the pool of the database in use: `on!(db, reader, |pool| …)`. The role (`reader`
/// or `writer`) selects the connection on SQLite; PostgreSQL has one pool for both, and repeats the statements of
/// `reader` when their connection was lost.
macro_rules! on {
    ($db:expr, $role:ident, |$pool:ident| $body:expr) => {
        match $db {
            $crate::store::Db::Sqlite(db) => {
                let $pool = &db.$role;
                $body
            }
            $crate::store::Db::Postgres(db) => {
                let $pool = db.$role();
                $body
            }
        }
    };
}
pub(super) use on;

/// Evaluates the same code with the pool of hot reads ([`super::read_pool`]), on PostgreSQL that of the primary: `hot!(db, |pool| …)`. With a
/// partition, `hot!(db, partition, |pool| …)`, it is that for reads of its records.
macro_rules! hot {
    ($db:expr, $partition:expr, |$pool:ident| $body:expr) => {
        match $db {
            $crate::store::Db::Sqlite(db) => {
                let $pool = db.read_pool.reads();
                $body
            }
            $crate::store::Db::Postgres(db) => {
                let of_partition = db.pool_of($partition, $crate::store::reads::Reads::Hot);
                let $pool = of_partition.reads();
                $body
            }
        }
    };
    ($db:expr, |$pool:ident| $body:expr) => {
        match $db {
            $crate::store::Db::Sqlite(db) => {
                let $pool = db.read_pool.reads();
                $body
            }
            $crate::store::Db::Postgres(db) => {
                let $pool = db.read_pools.hot.primary().reads();
                $body
            }
        }
    };
}
pub(super) use hot;

/// Evaluates code in a transaction and commits it: `in_transaction!(db, |tx| …)`. The holder of a lease writes in
/// transactions only, also single statements, because they check that the lease is not over ([`super::lease::Lease::fenced`]).
macro_rules! in_transaction {
    ($db:expr, |$tx:ident| $body:expr) => {
        $crate::store::on!($db, writer, |pool| {
            let mut $tx = pool.begin().await?;
            let value = $body;
            $tx.commit().await?;
            value
        })
    };
}
pub(super) use in_transaction;
