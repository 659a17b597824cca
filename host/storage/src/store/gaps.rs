//! Gaps of the stream: periods whose events may not have reached the index. A gap is stored before the stream's cursor
//! passes it, and removed when a catch-up has ended.

use belvedere_base::clock::Timestamp;

use super::text_enum::text_enum;
use super::{Db, StoreError, on};

text_enum! {
    /// The cause of a gap.
    pub enum GapReason {
        /// The server has no events from the time of the cursor any more.
        CursorTooOld = "cursor_too_old",
        /// The stored cursor is later than the present.
        CursorInFuture = "cursor_in_future",
        /// The server's times have gone back behind the cursor.
        ServerRewound = "server_rewound",
        /// A message that ends every connection was skipped.
        MessageSkipped = "message_skipped",
        /// Frames could not be read.
        FrameUnreadable = "frame_unreadable",
        /// The server that was left sent no commits for long, and another is not asked for events as old.
        NoCommits = "no_commits",
    }
}

/// A period whose events may not have reached the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    pub reason: GapReason,
    /// Everything before is in the index. Zero when that time is unknown.
    pub from: Timestamp,
    /// Everything after is delivered by the stream.
    pub to: Timestamp,
}

/// A gap whose catch-up has not ended.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct OpenGap {
    pub reason: GapReason,
    #[sqlx(rename = "started_at")]
    pub from: Timestamp,
    #[sqlx(rename = "ended_at")]
    pub to: Timestamp,
    /// The id of the catch-up; `None` before there is one.
    pub job: Option<String>,
}

/// Stores a gap. One that waits for a catch-up and has the same reason is extended instead, so that there are never
/// many. A gap that is within a stored one was found before a crash, and changes nothing.
pub async fn add(db: &Db, gap: &Gap, now: Timestamp) -> Result<(), StoreError> {
    let known = "SELECT count(*) FROM stream_gaps WHERE reason = $1 AND started_at <= $2 AND ended_at >= $3";
    let extend = "UPDATE stream_gaps SET found_at = $4, \
                      started_at = CASE WHEN started_at < $2 THEN started_at ELSE $2 END, \
                      ended_at = CASE WHEN ended_at > $3 THEN ended_at ELSE $3 END \
                  WHERE reason = $1 AND job IS NULL";
    let insert = "INSERT INTO stream_gaps (reason, started_at, ended_at, found_at) VALUES ($1, $2, $3, $4)";
    let reason = gap.reason;
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let known: i64 =
            sqlx::query_scalar(known).bind(reason).bind(gap.from).bind(gap.to).fetch_one(&mut *tx).await?;
        if known == 0 {
            let query = sqlx::query(extend).bind(reason).bind(gap.from).bind(gap.to).bind(now);
            if query.execute(&mut *tx).await?.rows_affected() == 0 {
                let query = sqlx::query(insert).bind(reason).bind(gap.from).bind(gap.to).bind(now);
                query.execute(&mut *tx).await?;
            }
            tx.commit().await?;
        }
    });
    Ok(())
}

/// The gaps whose catch-up has not ended, the oldest first.
pub async fn open(db: &Db) -> Result<Vec<OpenGap>, StoreError> {
    let sql = "SELECT reason, started_at, ended_at, job FROM stream_gaps ORDER BY seq";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?)
}
