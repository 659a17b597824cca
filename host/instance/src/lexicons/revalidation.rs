//! Validates stored records again after their lexicons changed, in the background, on one host at a time.
//!
//! Each collection's progress is stored with the fingerprint of the lexicons that it is for, so that a restart continues
//! and another change starts from the beginning. Records that are written meanwhile are validated when they are written,
//! by hosts that may not know the new lexicons yet; so a second pass over these follows when all of them do.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_protocol::atproto::Nsid;
use belvedere_storage::query::Position;
use belvedere_storage::store::records::FullRecordRow;
use belvedere_storage::store::records::invalid::{self, Verdict};
use belvedere_storage::store::validations::{self, START, Validation};
use belvedere_storage::store::{Db, StoreError};

use super::registry::{Registry, Snapshot};

/// Interval between checks whether lexicons have changed. A check costs nothing but memory, unless they have.
const INTERVAL: Duration = Duration::from_millis(500);

/// Time until the next look at collections whose second pass is not due yet, and after a failure of the database.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Records read at a time; they are at most 1 MiB.
const STEP: u32 = 500;

/// Passes: one over all records at once, one over those that were written since when no host validates by the old lexicons
/// any more.
const PASSES: i64 = 2;

/// Seconds after which all hosts know the new lexicons, and records that were validated by the old ones are written:
/// hosts reload at least every minute.
const SETTLED_SECONDS: i64 = 120;

/// Seconds by which the clock of a host that writes records may be behind.
const CLOCK_ERROR_SECONDS: i64 = 60;

/// Percent of a collection's records that a change has to make invalid to be reported. Below it they are most likely those
/// that were wrong before.
const REPORTED_PERCENT: usize = 1;

/// A change of lexicons made records invalid that were valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidationReport {
    pub collection: Nsid,
    /// Records that the pass has come by; after a restart those since then.
    pub checked: usize,
    /// Those of them that were valid before and are not any more. Also of a pass that another change has ended.
    pub lost: usize,
    /// The reason why the first of these is not valid any more.
    pub reason: String,
}

/// Receives changes that make many records invalid.
type Report<'a> = &'a (dyn Fn(InvalidationReport) + Send + Sync);

/// The counts of passes that are not reported yet, by collection.
type Counts = HashMap<Nsid, InvalidationReport>;

/// Validates records again whenever the registry has other lexicons than those that their collections were validated
/// against. Does not return.
pub async fn run(db: Db, registry: Arc<Registry>, clock: Clock, report: Report<'_>) {
    // The last lexicons, and when to look again although they are the same.
    let mut last: Option<(Arc<Snapshot>, Option<Instant>)> = None;
    let mut counts = Counts::new();
    loop {
        let snapshot = registry.snapshot();
        let is_done = last.as_ref().is_some_and(|(lexicons, again)| {
            lexicons.same_fingerprints(&snapshot) && again.is_none_or(|at| Instant::now() < at)
        });
        if !is_done {
            let again = match validate_collections((&db, &clock), (&registry, &snapshot), &mut counts, report)
                .await
            {
                Ok(true) => None,
                Ok(false) => Some(Instant::now() + LOOK_AGAIN),
                Err(error) => {
                    tracing::warn!(%error, "records can't be validated again; this is retried");
                    Some(Instant::now() + LOOK_AGAIN)
                }
            };
            last = Some((snapshot, again));
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Validates the records of each collection that is due. Returns whether none is left, until lexicons change again.
async fn validate_collections(
    (db, clock): (&Db, &Clock),
    (registry, snapshot): (&Registry, &Snapshot),
    counts: &mut Counts,
    report: Report<'_>,
) -> Result<bool, StoreError> {
    let mut is_settled = true;
    for collection in snapshot.tracked().iter() {
        let Some(fingerprint) = snapshot.fingerprint(collection.as_str()) else { continue };
        if !is_current(registry, snapshot, collection) {
            return Ok(false);
        }
        let id = validations::collection_id(db, collection).await?;
        let stored = validations::get(db, id).await?.filter(|stored| stored.fingerprint == fingerprint);
        let new = Validation { fingerprint, noticed_at: clock.now(), passes: 0, after: START };
        let mut state = stored.unwrap_or(new);
        if stored.is_none() {
            validations::set(db, id, &state).await?;
        }
        if state.passes >= PASSES {
            continue;
        }
        is_settled = false;
        let begins_at = state.noticed_at.plus_seconds(SETTLED_SECONDS * state.passes);
        if clock.now() < begins_at {
            continue;
        }
        let new =
            InvalidationReport { collection: collection.clone(), checked: 0, lost: 0, reason: String::new() };
        let done = counts.entry(collection.clone()).or_insert(new);
        if !pass(db, (registry, snapshot), (id, begins_at), &mut state, done).await? {
            return Ok(false);
        }
        if let Some(done) = counts.remove(collection)
            && done.lost > 0
            && done.lost * 100 >= done.checked * REPORTED_PERCENT
        {
            report(done);
        }
    }
    Ok(is_settled)
}

/// Whether the collection's records are validated in the same way by the lexicons that are in force now.
fn is_current(registry: &Registry, snapshot: &Snapshot, collection: &Nsid) -> bool {
    let nsid = collection.as_str();
    registry.snapshot().fingerprint(nsid) == snapshot.fingerprint(nsid)
}

/// One pass over the records of a collection that were indexed before it began: later ones were validated by the same
/// lexicons. `false` when these have changed meanwhile.
async fn pass(
    db: &Db,
    (registry, snapshot): (&Registry, &Snapshot),
    (id, began_at): (i64, Timestamp),
    state: &mut Validation,
    done: &mut InvalidationReport,
) -> Result<bool, StoreError> {
    let collection = done.collection.clone();
    if state.after == START {
        done.checked = 0;
    }
    // The pass before has validated the others.
    let written_since = (state.passes > 0).then(|| state.noticed_at.plus_seconds(-CLOCK_ERROR_SECONDS));
    let (mut validated, mut changed) = (0, 0);
    loop {
        if !is_current(registry, snapshot, &collection) {
            return Ok(false);
        }
        let started = Instant::now();
        let step = invalid::walk(db, &collection, state.after, STEP).await?;
        done.checked += step.rows.len();
        let rows = step.rows.into_iter();
        let rows: Vec<_> =
            rows.filter(|row| written_since.is_none_or(|since| row.updated_at >= since)).collect();
        validated += rows.len();
        let bytes = rows.iter().map(|row| row.row.record.len()).sum();
        let verdicts: Vec<_> = hand_over_thread(bytes, || {
            rows.iter().filter_map(|row| verdict(snapshot, &collection, row, done)).collect()
        });
        changed += verdicts.len();
        if !verdicts.is_empty() {
            invalid::set(db, &collection, &verdicts).await?;
        }
        let Some(Position::Time(after)) = step.next else { break };
        state.after = after;
        if after.indexed_at > began_at {
            break;
        }
        validations::set(db, id, state).await?;
        // Leaves at least half of the time to others.
        tokio::time::sleep(started.elapsed()).await;
    }
    *state = Validation { passes: state.passes + 1, after: START, ..*state };
    validations::set(db, id, state).await?;
    if done.checked > 0 {
        let checked = done.checked;
        let pass = state.passes;
        tracing::info!(%collection, checked, validated, changed, pass, "records were validated again");
    }
    Ok(true)
}

/// Validates a record. `None` if the stored verdict stays.
fn verdict(
    snapshot: &Snapshot,
    collection: &Nsid,
    row: &FullRecordRow,
    done: &mut InvalidationReport,
) -> Option<Verdict> {
    let validity = snapshot.validate(collection.as_str(), &row.row.rkey, &row.row.record);
    let reason = validity.reason().map(str::to_owned);
    if let (Some(reason), None) = (&reason, &row.invalid_reason) {
        if done.lost == 0 {
            done.reason.clone_from(reason);
        }
        done.lost += 1;
    }
    let is_new = reason != row.invalid_reason;
    is_new.then_some(Verdict { id: row.row.id, updated_at: row.updated_at, reason })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use belvedere_standins::database::Database;
    use bytes::Bytes;
    use serde_json::json;

    use super::*;
    use belvedere_protocol::atproto::{Did, RecordKey, RecordUri, Tid};
    use belvedere_storage::store::index::{self, Batch, Change, CheckedRecord, Validity};
    use belvedere_storage::store::lexicons::{self, MANUAL, NewLexicon};
    use belvedere_storage::store::records;

    const NOW: Timestamp = Timestamp(1_800_000_000_000_000);
    const NOTE: &str = "com.example.note";

    /// A lexicon that rejects the records of [`add`].
    async fn upload(db: &Db, id: &str) {
        let record =
            json!({ "type": "object", "required": ["text"], "properties": { "text": { "type": "string" } } });
        let main = json!({ "type": "record", "key": "any", "record": record });
        let document = json!({ "lexicon": 1, "id": id, "defs": { "main": main } });
        let lexicon = NewLexicon {
            id: id.to_owned(),
            lexicon_json: document.to_string(),
            lexicon_type: "record".to_owned(),
            source: MANUAL.to_owned(),
            ..NewLexicon::default()
        };
        lexicons::upsert(db, &lexicon, NOW).await.unwrap();
    }

    /// Stores records as valid.
    async fn add(db: &Db, count: usize, indexed_at: Timestamp) {
        let record = |n: usize| {
            let uri = RecordUri {
                did: Did::try_from("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa").unwrap(),
                collection: Nsid::try_from(NOTE).unwrap(),
                rkey: RecordKey::try_from(format!("{}-{n}", indexed_at.0).as_str()).unwrap(),
            };
            let record = CheckedRecord {
                text: Bytes::from_static(br#"{"$type":"com.example.note"}"#),
                cid: None,
                cid_verified: false,
                refs: Vec::new(),
                validity: Validity::Valid,
            };
            Change { uri, rev: Tid::new(1_700_000_000_000_000, 0).unwrap(), record: Some(record) }
        };
        let batch = Batch { changes: (0..count).map(record).collect(), now: indexed_at, ..Batch::default() };
        index::apply(db, &batch).await.unwrap();
    }

    async fn invalid_records(db: &Db) -> u64 {
        records::collection_counts(db).await.unwrap()[0].invalid
    }

    #[tokio::test]
    async fn a_pass_ends_with_the_records_that_were_indexed_before_it_began() {
        for database in [Database::sqlite(), Database::postgres().await] {
            let db = Db::open(&database.url, 4).await.unwrap();
            db.migrate().await.unwrap();
            upload(&db, NOTE).await;
            let step = STEP as usize;
            // The second step ends among the records of the moment in which the pass begins.
            add(&db, step + 100, Timestamp(NOW.0 - 1)).await;
            add(&db, step, NOW).await;
            add(&db, step, Timestamp(NOW.0 + 1)).await;
            add(&db, 100, Timestamp(NOW.0 + 2)).await;
            let registry = Registry::default();
            registry.reload(&db).await.unwrap();
            let clock = Clock::fixed(NOW);
            let reported = Mutex::new(Vec::new());
            let report = |done: InvalidationReport| reported.lock().unwrap().push((done.checked, done.lost));
            let mut counts = Counts::new();
            let mut validate = async || {
                let lexicons = (&registry, &*registry.snapshot());
                validate_collections((&db, &clock), lexicons, &mut counts, &report).await.unwrap()
            };

            assert!(!validate().await, "a second pass is to come");
            assert_eq!(
                invalid_records(&db).await,
                3 * u64::from(STEP),
                "the step with the first later record"
            );
            assert!(!validate().await);
            assert_eq!(invalid_records(&db).await, 3 * u64::from(STEP), "the second pass is not due");
            // Stands for records that the first pass has validated: nothing has changed them since.
            add(&db, 7, NOW.plus_seconds(-CLOCK_ERROR_SECONDS - 1)).await;
            clock.set(NOW.plus_seconds(SETTLED_SECONDS));
            validate().await;
            assert_eq!(invalid_records(&db).await, 3 * u64::from(STEP) + 200);
            assert!(validate().await, "nothing is left");
            let all = 3 * step + 200 + 7;
            assert_eq!(*reported.lock().unwrap(), [(3 * step, 3 * step), (all, 200)]);
        }
    }

    #[tokio::test]
    async fn only_a_change_for_the_collection_ends_its_pass() {
        for database in [Database::sqlite(), Database::postgres().await] {
            let db = Db::open(&database.url, 4).await.unwrap();
            db.migrate().await.unwrap();
            upload(&db, NOTE).await;
            add(&db, 10, NOW).await;
            let registry = Registry::default();
            registry.reload(&db).await.unwrap();
            let before = registry.snapshot();
            let clock = Clock::fixed(NOW);
            let reported = Mutex::new(Vec::new());
            let report = |done: InvalidationReport| reported.lock().unwrap().push(done);
            // The report of a pass that a change of this lexicon has ended.
            let collection = Nsid::try_from(NOTE).unwrap();
            let done = InvalidationReport {
                collection: collection.clone(),
                checked: 7,
                lost: 5,
                reason: "the first".to_owned(),
            };
            let mut counts = Counts::from([(collection, done)]);

            upload(&db, "com.example.other").await;
            registry.reload(&db).await.unwrap();
            validate_collections((&db, &clock), (&registry, &before), &mut counts, &report).await.unwrap();
            assert_eq!(invalid_records(&db).await, 10, "another lexicon is no reason");
            let done = reported.lock().unwrap().pop().unwrap();
            assert_eq!((done.checked, done.lost, done.reason.as_str()), (10, 15, "the first"));

            lexicons::delete(&db, NOTE).await.unwrap();
            registry.reload(&db).await.unwrap();
            clock.set(NOW.plus_seconds(SETTLED_SECONDS));
            let is_done =
                validate_collections((&db, &clock), (&registry, &before), &mut counts, &report).await;
            assert!(!is_done.unwrap() && reported.lock().unwrap().is_empty());
        }
    }
}
