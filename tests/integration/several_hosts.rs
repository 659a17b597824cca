//! Several hosts on one PostgreSQL behave like one server.

mod backfill;
mod changes;
mod external_accounts;
mod frozen;
mod frozen_backfill;
mod history;
mod labelers;
mod scripts;
mod sessions;
mod space_notices;
mod stream;
mod subscriptions;

use std::time::{Duration, Instant};

use belvedere_standins::jetstream::FakeJetstream;
use belvedere_standins::postgres;
use http::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::support::instance::{Answer, Instance};
use crate::support::plc::Plc;

/// The interval at which a condition is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Hosts reload everything every minute, so a change that is seen sooner was announced with NOTIFY.
const NOTIFIED_WITHIN: Duration = Duration::from_secs(30);

/// Base64 of 32 bytes. All hosts have the same key, so that each can open what the others sealed.
pub const SEALING_KEY: &str = "YmVsdmVkZXJlIHRlc3RzIHVzZSB0aGlzIGtleS4uLi4=";

/// Two hosts, one database, one stream.
struct Hosts {
    url: String,
    stream: FakeJetstream,
    plc: Plc,
    a: Instance,
    b: Instance,
}

impl Hosts {
    /// Starts both hosts. The admin key and the API client are created on the first and used on both.
    async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Like [`Self::start`], with more environment variables.
    async fn start_with(more: &[(&'static str, &str)]) -> Self {
        let url = postgres::create_database().await;
        let stream = FakeJetstream::start().await;
        let plc = Plc::start().await;
        let plc_url = plc.url();
        let same = [&[("TOKEN_ENCRYPTION_KEY", SEALING_KEY), ("PLC_URL", &plc_url)], more].concat();
        let a = Instance::start_with(&url, &stream.url(), &same).await;
        let mut b = Instance::start_unclaimed(&url, &stream.url(), &same).await;
        b.admin_key.clone_from(&a.admin_key);
        b.client_key.clone_from(&a.client_key);
        Self { url, stream, plc, a, b }
    }

    /// Runs a statement in the database without notifying the hosts.
    async fn sql(&self, sql: &str) {
        let mut conn = PgConnection::connect(&self.url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
    }
}

/// Sends an admin request. Panics unless it succeeds.
async fn done(host: &Instance, method: Method, path: &str, body: &Value) -> Value {
    let answer = host.admin(method, path, Some(body)).await;
    assert!(answer.status.is_success(), "{path}: {}", answer.text);
    answer.body
}

async fn get(host: &Instance, path: &str) -> Answer {
    host.admin(Method::GET, path, None).await
}

/// Waits for a condition, for less time than it would take without a notification from the other host.
async fn soon(what: &str, within: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !holds().await {
        assert!(Instant::now() < deadline, "{what}: not within {within:?}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
