//! Looks at a server beside the primary, on a connection that is kept between looks.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::service::{PROBE_TIMEOUT, Unused};

/// Interval at which each server is looked at.
pub(in crate::store) const PROBE_EVERY: Duration = Duration::from_secs(1);

/// Servers that are looked at again and again.
pub(in crate::store) trait Watched {
    /// Looks once, and stores the result. A function of a trait and not a closure, because the compiler can't tell that the
    /// future of an asynchronous closure may move between threads.
    fn look(&mut self) -> impl Future<Output = ()> + Send;
}

/// Looks until `stop` is cancelled.
pub(in crate::store) async fn watch(stop: &CancellationToken, watched: &mut impl Watched) {
    let mut ticks = tokio::time::interval(PROBE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let watching = async {
        loop {
            ticks.tick().await;
            watched.look().await;
        }
    };
    stop.run_until_cancelled(watching).await;
}

pub(in crate::store) struct Probe {
    options: PgConnectOptions,
    connection: Option<PgConnection>,
}

impl Probe {
    /// Connects when it looks for the first time.
    pub(in crate::store) fn new(options: PgConnectOptions) -> Self {
        Self { options, connection: None }
    }

    /// Asks the server. After an error the next look connects again.
    pub(in crate::store) async fn look<T>(
        &mut self,
        ask: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, Unused> {
        // Taken, so that a look that is given up half-way leaves no connection with an answer to come.
        let kept = self.connection.take();
        let look = async {
            let mut connection = match kept {
                Some(connection) => connection,
                None => PgConnection::connect_with(&self.options).await?,
            };
            let seen = ask(&mut connection).await?;
            Ok::<_, sqlx::Error>((connection, seen))
        };
        match tokio::time::timeout(PROBE_TIMEOUT, look).await {
            Ok(Ok((connection, seen))) => {
                self.connection = Some(connection);
                Ok(seen)
            }
            Ok(Err(error)) => Err(Unused::Unreachable(error.to_string())),
            Err(_) => Err(Unused::Silent),
        }
    }
}
