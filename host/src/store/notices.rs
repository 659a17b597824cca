//! Notices from host to host, over PostgreSQL's NOTIFY. What they say is the business of whoever sends them.
//!
//! A SQLite file has one server: nothing is sent there, and nobody listens.

use std::time::Duration;

use super::line::Line;
use super::{Db, StoreError};

const CHANNEL: &str = "belvedere";

/// Between two attempts to listen.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// Tells all hosts, this one included, that listen at this moment.
///
/// # Errors
/// When the database can't be reached; then nobody was told.
pub async fn announce(db: &Db, text: &str) -> Result<(), StoreError> {
    if let Db::Postgres(db) = db {
        sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(text).execute(&db.pool).await?;
    }
    Ok(())
}

/// What a listener hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Notice(String),
    /// The listener has just begun to listen: of what was said before it knows nothing.
    Began,
}

/// Listens for as long as it lives; connects again when it has to.
#[derive(Debug)]
pub struct Notices {
    db: Db,
    line: Option<Line>,
}

impl Notices {
    pub fn of(db: &Db) -> Self {
        Self { db: db.clone(), line: None }
    }

    /// The next notice. Waits while the database is away, and for ever on SQLite. May be dropped and called again.
    pub async fn next(&mut self) -> Heard {
        let Db::Postgres(db) = &self.db else { return std::future::pending().await };
        if let Some(line) = &mut self.line {
            if let Some(notice) = line.next().await {
                return Heard::Notice(notice.payload().to_owned());
            }
            self.line = None;
            tracing::warn!("the connection for notices of other hosts is gone");
        }
        loop {
            let listening = async {
                let mut line = Line::open(db).await?;
                line.listen(CHANNEL).await?;
                Ok::<_, StoreError>(line)
            };
            match listening.await {
                Ok(line) => {
                    self.line = Some(line);
                    return Heard::Began;
                }
                Err(error) => tracing::warn!(%error, "notices of other hosts can't be listened for"),
            }
            tokio::time::sleep(LISTEN_AGAIN).await;
        }
    }
}
