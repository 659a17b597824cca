//! Builds and drops indexes of record fields according to what queries on the fields cost.
//!
//! Every few seconds each host writes the costs that its reads noted to the database. The host that gets the build lock
//! then builds the index whose absence has cost most, drops unused indexes, and cleans up after an interrupted build (a
//! `kill -9` leaves the state `building` behind, and on PostgreSQL an invalid index). Every host uses the indexes that
//! are ready.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::store::fields::BuildError;
use crate::store::fields::build::{self, BuildLock};
use crate::store::fields::table::{self, FieldIndex, State};
use crate::store::{Db, StoreError};
use belvedere_base::clock::{Clock, Timestamp};

/// Time between two rounds: an index exists soon after it was needed, and a round costs two short statements.
const PERIOD: Duration = Duration::from_secs(5);
/// Minimum total cost of queries for a field before an index is worth its upkeep. Occasional queries never cost that
/// much.
const MIN_COST_MICROS: i64 = 1_000_000;
/// Minimum mean cost of a call: below this an index saves nothing noticeable.
const MIN_MICROS_PER_CALL: i64 = 2_000;
/// An index that was unused for so long only costs writes. Two weeks keep the index of a weekly job that once fails.
const UNUSED_SECONDS: i64 = 14 * DAY_SECONDS;
/// Time between a failed build and the next attempt: its cause (disk, rights) rarely ends sooner.
const RETRY_SECONDS: i64 = DAY_SECONDS;
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Runs [`advise`] every few seconds until `shutdown`. `limit` is the maximum number of indexes; 0 drops all.
pub async fn run(db: Db, clock: Clock, limit: u32, shutdown: CancellationToken) {
    loop {
        let advised = shutdown.run_until_cancelled(advise(&db, &clock, limit)).await;
        match advised {
            None => return,
            Some(Ok(())) => {}
            Some(Err(error)) => tracing::warn!(%error, "failed to maintain the indexes of record fields"),
        }
        if shutdown.run_until_cancelled(tokio::time::sleep(PERIOD)).await.is_none() {
            return;
        }
    }
}

/// One round: loads which indexes are ready, stores the noted costs, drops indexes, and builds at most one.
///
/// # Errors
/// When the database fails. A failed build is not an error: its entry stores the reason.
pub async fn advise(db: &Db, clock: &Clock, limit: u32) -> Result<(), StoreError> {
    // First, because a build takes minutes: until it has ended, a host that has just started would use none of them.
    table::refresh(db).await?;
    table::flush(db, clock.now()).await?;
    let entries = table::list(db).await?;
    let actions = plan(&entries, clock.now(), limit);
    if !actions.is_empty()
        && let Some(mut lock) = build::lock(db).await?
    {
        // Another host may have changed the entries before this one got the lock.
        let entries = table::list(db).await?;
        for (entry, action) in plan(&entries, clock.now(), limit) {
            match action {
                Action::Build => build_index(db, clock, &mut lock, entry).await?,
                Action::Drop => {
                    // Taken out of use first: reads of this host must not use a dropped index.
                    table::set_state(db, entry.id, State::Building, None, None, clock.now()).await?;
                    table::refresh(db).await?;
                    lock.drop_index(entry.key.kind, entry.id).await?;
                    table::remove(db, entry.id).await?;
                    log_action(entry, "dropped the index of a record field");
                }
                Action::CleanUp => {
                    lock.drop_index(entry.key.kind, entry.id).await?;
                    table::set_state(db, entry.id, State::Candidate, None, None, clock.now()).await?;
                    log_action(entry, "cleaned up after an interrupted index build");
                }
                Action::Remove => table::remove(db, entry.id).await?,
            }
        }
        lock.release().await?;
        table::refresh(db).await?;
    }
    Ok(())
}

/// Builds every index that the entries say exists, in a database that got its rows from another one.
///
/// # Errors
/// As [`advise`].
pub async fn rebuild(db: &Db, clock: &Clock) -> Result<(), StoreError> {
    let Some(mut lock) = build::lock(db).await? else { return Ok(()) };
    for entry in table::list(db).await? {
        if matches!(entry.state, State::Ready | State::Building) {
            build_index(db, clock, &mut lock, &entry).await?;
        }
    }
    lock.release().await
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Build,
    Drop,
    /// The state is `building` although this host has the build lock: a build was interrupted.
    CleanUp,
    /// Remove the entry; it has no index.
    Remove,
}

/// The actions of one round. At most one build, and only if there is no other action.
fn plan(entries: &[FieldIndex], now: Timestamp, limit: u32) -> Vec<(&FieldIndex, Action)> {
    let age = |at: Timestamp| (now.0 - at.0) / 1_000_000;
    let mut actions = Vec::new();
    let mut ready: Vec<&FieldIndex> = Vec::new();
    for entry in entries {
        let unused = age(entry.last_used_at) > UNUSED_SECONDS;
        match entry.state {
            State::Building => actions.push((entry, Action::CleanUp)),
            State::Ready if unused => actions.push((entry, Action::Drop)),
            State::Ready => ready.push(entry),
            State::Candidate | State::Failed if unused => actions.push((entry, Action::Remove)),
            State::Candidate | State::Failed => {}
        }
    }
    // The limit may have been lowered: the most recently used indexes stay.
    ready.sort_by_key(|entry| std::cmp::Reverse((entry.last_used_at, entry.calls)));
    actions.extend(ready.iter().skip(limit as usize).map(|entry| (*entry, Action::Drop)));
    if actions.is_empty() && ready.len() < limit as usize {
        let is_worth_building = |entry: &&FieldIndex| {
            let may_retry = entry.state == State::Failed && age(entry.state_changed_at) > RETRY_SECONDS;
            (entry.state == State::Candidate || may_retry)
                && entry.scan_micros >= MIN_COST_MICROS
                && entry.scan_micros >= MIN_MICROS_PER_CALL.saturating_mul(entry.scans)
        };
        let most_expensive = entries.iter().filter(is_worth_building).max_by_key(|entry| entry.scan_micros);
        actions.extend(most_expensive.map(|entry| (entry, Action::Build)));
    }
    actions
}

async fn build_index(
    db: &Db,
    clock: &Clock,
    lock: &mut BuildLock<'_>,
    entry: &FieldIndex,
) -> Result<(), StoreError> {
    let started = clock.now();
    table::set_state(db, entry.id, State::Building, None, None, started).await?;
    let built = lock.build(&entry.key, entry.id).await;
    let now = clock.now();
    match built {
        Ok(()) => {
            table::set_state(db, entry.id, State::Ready, Some(now.0 - started.0), None, now).await?;
            log_action(entry, "built an index of a record field");
        }
        Err(error) => {
            lock.drop_index(entry.key.kind, entry.id).await?;
            table::set_state(db, entry.id, State::Failed, None, Some(&reason(&error)), now).await?;
            let (collection, field) = (&entry.collection, &entry.key.path);
            tracing::warn!(%error, collection, %field, "failed to build an index of a record field");
        }
    }
    Ok(())
}

/// The reason for admins, without the database's error text, which is only logged.
fn reason(error: &BuildError) -> String {
    match error {
        BuildError::Invalid => error.to_string(),
        BuildError::Store(_) => "the database rejected the index; see the log".to_owned(),
    }
}

fn log_action(entry: &FieldIndex, what: &'static str) {
    let (collection, kind) = (&entry.collection, entry.key.kind.as_str());
    tracing::info!(collection, field = %entry.key.path, kind, "{what}");
}

#[cfg(test)]
mod tests {
    use belvedere_standins::database::Database;

    use super::*;
    use crate::query::path::Path;
    use crate::store::fields::{IndexKey, IndexKind};
    use crate::store::testing;

    const NOW: Timestamp = Timestamp(1_800_000_000_000_000);

    fn entry(id: i64, state: State, scans: i64, scan_micros: i64) -> FieldIndex {
        let key = IndexKey { collection_id: 1, path: Path::parse("a").unwrap(), kind: IndexKind::Filter };
        FieldIndex {
            id,
            key,
            collection: "com.example.note".into(),
            state,
            calls: scans,
            scans,
            scan_micros,
            last_used_at: NOW,
            state_changed_at: NOW,
            build_micros: None,
            error: None,
        }
    }

    fn actions(entries: &[FieldIndex], limit: u32) -> Vec<(i64, Action)> {
        plan(entries, NOW, limit).into_iter().map(|(entry, action)| (entry.id, action)).collect()
    }

    #[test]
    fn builds_the_index_whose_absence_cost_most() {
        let entries = [
            entry(1, State::Candidate, 10, 999_999),      // too cheap in total
            entry(2, State::Candidate, 1_000, 1_500_000), // many cheap calls
            entry(3, State::Candidate, 100, 2_000_000),
            entry(4, State::Candidate, 100, 3_000_000),
            entry(5, State::Failed, 100, 9_000_000),
        ];
        assert_eq!(actions(&entries, 1), [(4, Action::Build)]);
        assert_eq!(actions(&entries, 0), []);
        let mut full = entries.to_vec();
        full.push(entry(6, State::Ready, 0, 0));
        assert_eq!(actions(&full, 1), []);
        full[4].state_changed_at = NOW.plus_seconds(-RETRY_SECONDS - 1);
        assert_eq!(actions(&full, 2), [(5, Action::Build)]);
    }

    #[test]
    fn drops_unused_and_surplus_indexes_and_cleans_up() {
        let mut entries = [
            entry(1, State::Ready, 0, 0),
            entry(2, State::Ready, 0, 0),
            entry(3, State::Ready, 5, 0),
            entry(4, State::Candidate, 0, 0),
            entry(5, State::Building, 9, 9_000_000),
        ];
        entries[0].last_used_at = NOW.plus_seconds(-UNUSED_SECONDS - 1);
        entries[3].last_used_at = NOW.plus_seconds(-UNUSED_SECONDS - 1);
        assert_eq!(
            actions(&entries, 1),
            [(1, Action::Drop), (4, Action::Remove), (5, Action::CleanUp), (2, Action::Drop)]
        );
    }

    /// After a move the entries say what exists, but nothing does.
    #[tokio::test]
    async fn indexes_are_built_again_in_a_database_that_was_moved() {
        for database in [Database::sqlite(), Database::postgres().await] {
            let db = Db::open(&database.url, 2).await.unwrap();
            db.migrate().await.unwrap();
            testing::add_moved_field_indexes(&db).await.unwrap();
            rebuild(&db, &Clock::system()).await.unwrap();
            assert_eq!(testing::count_moved_field_indexes(&db).await.unwrap(), 2);
            let states = table::list(&db).await.unwrap();
            let ready =
                states.iter().filter(|entry| entry.state == State::Ready && entry.build_micros.is_some());
            assert_eq!((ready.count(), states.len()), (2, 3));
            db.close().await;
        }
    }
}
