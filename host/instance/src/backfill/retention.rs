//! Deletes the repos of jobs that ended long ago (admin-api.md §16, Retention sweeps). The jobs themselves stay.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use belvedere_base::clock::{Clock, Timestamp};
use belvedere_storage::store::backfill::delete_details_older_than;
use belvedere_storage::store::{Db, StoreError};

/// Time between sweeps. The first one runs at the start.
const PERIOD: Duration = Duration::from_hours(24);

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Sweeps once a day until `shutdown`. `days` is the setting `backfill_retention_days`, which may change.
pub async fn run(db: Db, clock: Clock, days: impl Fn() -> u32, shutdown: CancellationToken) {
    loop {
        match shutdown.run_until_cancelled(sweep(&db, clock.now(), days())).await {
            None => return,
            Some(Ok(())) => {}
            Some(Err(error)) => {
                tracing::warn!(%error, "the details of old backfills can't be removed; the next try is tomorrow");
            }
        }
        if shutdown.run_until_cancelled(tokio::time::sleep(PERIOD)).await.is_none() {
            return;
        }
    }
}

/// One sweep; `days` 0 keeps all.
async fn sweep(db: &Db, now: Timestamp, days: u32) -> Result<(), StoreError> {
    if days == 0 {
        return Ok(());
    }
    delete_details_older_than(db, now.plus_seconds(-i64::from(days) * DAY_SECONDS)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_protocol::atproto::Nsid;
    use belvedere_storage::store::backfill::{self, NewJob, Phase};
    use belvedere_storage::store::status::Request;

    #[tokio::test]
    async fn only_the_repos_of_jobs_that_ended_long_ago_go() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(&format!("sqlite://{}/test.db", dir.path().display()), 2).await.unwrap();
        db.migrate().await.unwrap();
        let collection = Nsid::try_from("com.example.note").unwrap();
        let ended = Timestamp(1_800_000_000_000_000);
        for id in ["old", "running"] {
            let job = NewJob { id: id.to_owned(), ..NewJob::default() };
            backfill::create(&db, &job, Timestamp(1)).await.unwrap();
            let seq = backfill::next(&db).await.unwrap().unwrap().seq;
            let dids = ["did:plc:a".to_owned(), "did:plc:b".to_owned()];
            backfill::add_repos(&db, seq, collection.as_str(), &dids, None).await.unwrap();
            if id == "old" {
                backfill::end(&db, seq, Request::Complete, None, ended).await.unwrap();
            }
        }
        let later = |days: i64| ended.plus_seconds(days * DAY_SECONDS + 1);
        let left = async |id| backfill::repos(&db, id, Phase::All, None, 10).await.unwrap().len();
        sweep(&db, later(27), 28).await.unwrap();
        assert_eq!(left("old").await, 2);
        sweep(&db, later(1_000), 0).await.unwrap();
        assert_eq!(left("old").await, 2, "0 keeps them forever");
        sweep(&db, later(28), 28).await.unwrap();
        assert_eq!((left("old").await, left("running").await), (0, 2));
        assert_eq!(backfill::list(&db).await.unwrap().len(), 2, "the jobs stay");
    }
}
