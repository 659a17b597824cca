//! Indexes that follow use: what queries cost on record fields decides which indexes there are.
//!
//! Every few seconds the uses noted by reads go to the database, and whichever host gets the turn builds the index
//! whose lack has cost most, drops those that nobody uses any more, and clears up after a build that was cut off (a
//! `kill -9` leaves `building` behind, and on PostgreSQL an invalid index). Every host then uses what is ready.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Timestamp};
use crate::store::fields::build::{self, BuildError, Turn};
use crate::store::fields::table::{self, Entry, State};
use crate::store::{Db, StoreError};

/// Between two looks: an index is there soon after it was needed, and looking costs two short statements.
const PERIOD: Duration = Duration::from_secs(5);
/// What a field must have cost in all before an index is worth its upkeep. A query now and then never gets there.
const MIN_COST_MICROS: i64 = 1_000_000;
/// What a call must cost on average: below this an index saves nothing that anybody would notice.
const MIN_MICROS_PER_CALL: i64 = 2_000;
/// An index that nobody used for so long only costs writes. Longer than a holiday of its users' one job a week.
const UNUSED_SECONDS: i64 = 14 * DAY_SECONDS;
/// After a build failed; what was in its way (disk, rights, too many records) rarely goes sooner.
const RETRY_SECONDS: i64 = DAY_SECONDS;
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Advises every few seconds until `shutdown`. `limit`: indexes that may be there; 0 turns the advisor off.
pub async fn run(db: Db, clock: Clock, limit: u32, shutdown: CancellationToken) {
    loop {
        let advised = shutdown.run_until_cancelled(advise(&db, &clock, limit)).await;
        match advised {
            None => return,
            Some(Ok(())) => {}
            Some(Err(error)) => tracing::warn!(%error, "indexes of record fields can't be looked after now"),
        }
        if shutdown.run_until_cancelled(tokio::time::sleep(PERIOD)).await.is_none() {
            return;
        }
    }
}

/// One look: notes, drops, builds at most one index, and uses what is ready.
///
/// # Errors
/// When the database fails. A build that fails is no error: its entry says why.
pub async fn advise(db: &Db, clock: &Clock, limit: u32) -> Result<(), StoreError> {
    table::flush(db, clock.now()).await?;
    let entries = table::list(db).await?;
    let verdicts = judge(&entries, clock.now(), limit);
    if !verdicts.is_empty()
        && let Some(mut turn) = build::turn(db).await?
    {
        // What another host did before we got the turn counts.
        let entries = table::list(db).await?;
        for (entry, verdict) in judge(&entries, clock.now(), limit) {
            match verdict {
                Verdict::Build => make(db, clock, &mut turn, entry).await?,
                Verdict::Drop => {
                    // First out of use: reads of this host must not look for it.
                    table::set_state(db, entry.id, State::Building, None, None, clock.now()).await?;
                    table::refresh(db).await?;
                    turn.drop_index(entry.key.kind, entry.id).await?;
                    table::remove(db, entry.id).await?;
                    shown(entry, "dropped the index of a record field");
                }
                Verdict::ClearUp => {
                    turn.drop_index(entry.key.kind, entry.id).await?;
                    table::set_state(db, entry.id, State::Candidate, None, None, clock.now()).await?;
                    shown(entry, "cleared up after a build that was cut off");
                }
                Verdict::Forget => table::remove(db, entry.id).await?,
            }
        }
        turn.end().await?;
    }
    table::refresh(db).await
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Build,
    Drop,
    /// Whoever holds the turn is not building it: a build was cut off.
    ClearUp,
    Forget,
}

/// What is to be done. At most one build, and only when nothing else needs doing first.
fn judge(entries: &[Entry], now: Timestamp, limit: u32) -> Vec<(&Entry, Verdict)> {
    let age = |at: Timestamp| (now.0 - at.0) / 1_000_000;
    let mut verdicts = Vec::new();
    let mut ready: Vec<&Entry> = Vec::new();
    for entry in entries {
        let unused = age(entry.last_used_at) > UNUSED_SECONDS;
        match entry.state {
            State::Building => verdicts.push((entry, Verdict::ClearUp)),
            State::Ready if unused => verdicts.push((entry, Verdict::Drop)),
            State::Ready => ready.push(entry),
            State::Candidate | State::Failed if unused => verdicts.push((entry, Verdict::Forget)),
            State::Candidate | State::Failed => {}
        }
    }
    // The limit may have been lowered: what was used last stays.
    ready.sort_by_key(|entry| std::cmp::Reverse((entry.last_used_at, entry.calls)));
    verdicts.extend(ready.iter().skip(limit as usize).map(|entry| (*entry, Verdict::Drop)));
    if verdicts.is_empty() && ready.len() < limit as usize {
        let worth = |entry: &&Entry| {
            let waited = entry.state == State::Failed && age(entry.state_changed_at) > RETRY_SECONDS;
            (entry.state == State::Candidate || waited)
                && entry.scan_micros >= MIN_COST_MICROS
                && entry.scan_micros >= MIN_MICROS_PER_CALL.saturating_mul(entry.scans)
        };
        let dearest = entries.iter().filter(worth).max_by_key(|entry| entry.scan_micros);
        verdicts.extend(dearest.map(|entry| (entry, Verdict::Build)));
    }
    verdicts
}

async fn make(db: &Db, clock: &Clock, turn: &mut Turn<'_>, entry: &Entry) -> Result<(), StoreError> {
    let started = clock.now();
    table::set_state(db, entry.id, State::Building, None, None, started).await?;
    let built = turn.build(&entry.key, entry.id).await;
    let now = clock.now();
    match built {
        Ok(()) => {
            table::set_state(db, entry.id, State::Ready, Some(now.0 - started.0), None, now).await?;
            shown(entry, "built an index of a record field");
        }
        Err(error) => {
            turn.drop_index(entry.key.kind, entry.id).await?;
            table::set_state(db, entry.id, State::Failed, None, Some(&reason(&error)), now).await?;
            tracing::warn!(%error, collection = entry.collection, field = %entry.key.path, "an index failed");
        }
    }
    Ok(())
}

/// For admins: without the database's own words, which belong in the log.
fn reason(error: &BuildError) -> String {
    match error {
        BuildError::TooMany(_) | BuildError::Invalid => error.to_string(),
        BuildError::Store(_) => "the database refused; see the log".to_owned(),
    }
}

fn shown(entry: &Entry, what: &'static str) {
    let (collection, kind) = (&entry.collection, entry.key.kind.as_str());
    tracing::info!(collection, field = %entry.key.path, kind, "{what}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::path::Path;
    use crate::store::fields::{Key, Kind};

    const NOW: Timestamp = Timestamp(1_800_000_000_000_000);

    fn entry(id: i64, state: State, scans: i64, scan_micros: i64) -> Entry {
        let key = Key { collection_id: 1, path: Path::parse("a").unwrap(), kind: Kind::Filter };
        Entry {
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

    fn verdicts(entries: &[Entry], limit: u32) -> Vec<(i64, Verdict)> {
        judge(entries, NOW, limit).into_iter().map(|(entry, verdict)| (entry.id, verdict)).collect()
    }

    #[test]
    fn builds_what_cost_most() {
        let entries = [
            entry(1, State::Candidate, 10, 999_999),      // not much yet
            entry(2, State::Candidate, 1_000, 1_500_000), // many cheap calls
            entry(3, State::Candidate, 100, 2_000_000),
            entry(4, State::Candidate, 100, 3_000_000),
            entry(5, State::Failed, 100, 9_000_000),
        ];
        assert_eq!(verdicts(&entries, 1), [(4, Verdict::Build)]);
        assert_eq!(verdicts(&entries, 0), []);
        let mut full = entries.to_vec();
        full.push(entry(6, State::Ready, 0, 0));
        assert_eq!(verdicts(&full, 1), []);
        full[4].state_changed_at = NOW.plus_seconds(-RETRY_SECONDS - 1);
        assert_eq!(verdicts(&full, 2), [(5, Verdict::Build)]);
    }

    #[test]
    fn drops_what_is_unused_or_too_much_and_clears_up() {
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
            verdicts(&entries, 1),
            [(1, Verdict::Drop), (4, Verdict::Forget), (5, Verdict::ClearUp), (2, Verdict::Drop)]
        );
    }
}
