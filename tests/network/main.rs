//! The product on the real network: PLC directory, PDS, Jetstream, relay and DNS from npm, started once per run
//! (`network.rs`), and the `belvedere` binary as an operator starts it (`server.rs`). Every test has accounts and a
//! database of its own and runs on SQLite and on PostgreSQL.
//!
//! Nothing waits by the clock: tests poll for what they expect, with a deadline (`wait.rs`). Random choices come from
//! a seed that is printed; `BELVEDERE_SEED=N` repeats a run.

#![expect(clippy::print_stdout, reason = "tests speak to whoever runs them")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(unreachable_pub, reason = "one binary: its modules share what they have")]

mod accounts;
mod app;
mod crash;
mod database;
mod docs;
mod index;
mod network;
mod node;
mod oauth;
mod outside;
mod pds;
mod record_events;
mod sdk;
mod server;
mod story;
mod stream;
mod wait;
mod writes;

#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../support/process.rs"]
mod process;

/// Makes two tests of one: `name::sqlite` and `name::postgres`.
macro_rules! on_both {
    ($name:ident) => {
        mod $name {
            #[tokio::test]
            async fn sqlite() {
                super::$name($crate::database::Database::sqlite()).await;
            }

            #[tokio::test]
            async fn postgres() {
                super::$name($crate::database::Database::postgres().await).await;
            }
        }
    };
}
use on_both;
