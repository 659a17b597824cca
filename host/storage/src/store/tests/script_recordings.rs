//! Recordings of scripts and their runs.

use crate::store::Db;
use crate::store::script_recordings::{
    self as recordings, MAX_RECORDINGS, NewRun, RecordedSize, RecordingRow,
};
use crate::store::scripts::{self, NewScript};
use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;

on_both!(
    runs_belong_to_the_recording_that_goes_on,
    the_oldest_runs_go_first,
    the_number_of_recordings_is_bounded
);

async fn script(db: &Db, id: &str) {
    let script = NewScript { id: id.to_owned(), ..NewScript::default() };
    scripts::upsert(db, &script, Timestamp(1)).await.unwrap();
}

fn recording(id: &str, started_at: i64) -> RecordingRow {
    RecordingRow {
        script_id: id.to_owned(),
        percent: 100,
        until: Timestamp(100),
        started_by: "did:web:example.com".to_owned(),
        started_at: Timestamp(started_at),
    }
}

fn run(id: &str, started_at: i64, recorded_at: i64, bytes: usize) -> NewRun {
    let (started_at, recorded_at) = (Timestamp(started_at), Timestamp(recorded_at));
    NewRun { script_id: id.to_owned(), started_at, recorded_at, data: [0, 255].repeat(bytes / 2) }
}

async fn runs_belong_to_the_recording_that_goes_on(db: TestDb) {
    assert!(!recordings::set(&db, &recording("a", 1)).await.unwrap(), "it has no script");
    script(&db, "a").await;
    assert!(recordings::set(&db, &recording("a", 1)).await.unwrap());
    recordings::add(&db, &[run("a", 1, 5, 10), run("a", 2, 6, 10), run("b", 1, 7, 10)]).await.unwrap();
    assert_eq!(recordings::size(&db, "a").await.unwrap(), RecordedSize { runs: 1, bytes: 10 });
    let changed = RecordingRow { percent: 5, ..recording("a", 9) };
    assert!(recordings::set(&db, &changed).await.unwrap());
    let kept = recordings::get(&db, "a").await.unwrap().unwrap();
    assert_eq!((kept.percent, kept.started_at), (5, Timestamp(1)), "it is the same recording");
    let [stored] = &recordings::runs(&db, "a", i64::MAX, 10).await.unwrap()[..] else { panic!("one run") };
    assert_eq!((stored.recorded_at, stored.data.len()), (Timestamp(5), 10));
    assert!(recordings::runs(&db, "a", stored.id, 10).await.unwrap().is_empty());

    recordings::remove_old(&db, Timestamp(6)).await.unwrap();
    assert_eq!(recordings::size(&db, "a").await.unwrap(), RecordedSize::default());
    assert_eq!(recordings::list(&db).await.unwrap().len(), 1, "it goes on");
    recordings::remove_old(&db, Timestamp(101)).await.unwrap();
    assert_eq!(recordings::list(&db).await.unwrap(), []);

    assert!(recordings::set(&db, &recording("a", 20)).await.unwrap());
    recordings::add(&db, &[run("a", 20, 21, 10)]).await.unwrap();
    scripts::delete(&db, "a", None, Timestamp(30)).await.unwrap();
    assert_eq!(recordings::size(&db, "a").await.unwrap(), RecordedSize::default());
    assert!(!recordings::delete(&db, "a").await.unwrap(), "it went with the script");
}

async fn the_oldest_runs_go_first(db: TestDb) {
    script(&db, "a").await;
    assert!(recordings::set(&db, &recording("a", 1)).await.unwrap());
    let large = 1 << 20;
    let runs: Vec<_> = (0..130).map(|at| run("a", 1, at, large)).collect();
    recordings::add(&db, &runs).await.unwrap();
    recordings::trim(&db, "a").await.unwrap();
    assert_eq!(recordings::size(&db, "a").await.unwrap(), RecordedSize { runs: 128, bytes: 128 << 20 });
    let newest = recordings::runs(&db, "a", i64::MAX, 1).await.unwrap();
    assert_eq!(newest[0].recorded_at, Timestamp(129));
    assert!(recordings::delete(&db, "a").await.unwrap());
    assert_eq!(recordings::size(&db, "a").await.unwrap(), RecordedSize::default());
}

async fn the_number_of_recordings_is_bounded(db: TestDb) {
    for n in 0..=MAX_RECORDINGS {
        let id = format!("s{n}");
        script(&db, &id).await;
        assert_eq!(recordings::set(&db, &recording(&id, n)).await.unwrap(), n < MAX_RECORDINGS, "{n}");
    }
    assert!(recordings::set(&db, &recording("s0", 1)).await.unwrap(), "one that goes on can be changed");
}
