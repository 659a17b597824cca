//! Tests the `belvedere` binary, started as by an operator (`server.rs`), on a real network: PLC directory, PDS,
//! Jetstream, relay and DNS from npm, started once per run (`network.rs`). Every test uses new accounts and a new
//! database, and runs on SQLite and on PostgreSQL.
//!
//! Tests never sleep for a fixed time: they poll for what they expect, with a timeout (`wait.rs`). Random choices come
//! from a seed that is printed; `BELVEDERE_SEED=N` repeats a run.

#![expect(clippy::print_stdout, reason = "tests print their seeds and results")]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![expect(unreachable_pub, reason = "the modules of a binary share items as pub")]

mod accounts;
mod app;
mod backfill;
mod crash;
mod database;
mod docs;
mod index;
mod labelers;
mod lexicons;
mod lossy;
mod network;
mod node;
mod oauth;
mod outside;
mod pds;
mod plugins;
mod proxying;
mod record_events;
mod revocation;
mod sdk;
mod server;
mod service_identity;
mod spaces;
mod story;
mod stream;
mod verify;
mod wait;
mod writes;

#[path = "../support/process.rs"]
mod process;

/// Turns a test function into two tests: `name::sqlite` and `name::postgres`.
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
