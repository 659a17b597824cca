//! The event log: filters, pages, retention.

use crate::store::Db;
use crate::store::events::{self, Authentication, EventFilter, EventKeyset, EventRow, Requester, Severity};
use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;

fn event(n: i64, event_type: &str, severity: Severity, subject: Option<&str>) -> EventRow {
    EventRow {
        id: format!("id{n:03}"),
        event_type: event_type.into(),
        severity,
        actor_did: (n % 2 == 0).then(|| "did:plc:a".into()),
        subject: subject.map(str::to_owned),
        detail: r#"{"a":"\"'"}"#.into(),
        // Two events of each time.
        created_at: Timestamp(n / 2),
        requester: requester(n),
    }
}

/// Two addresses, of clients that have authenticated in different ways, and the server itself.
fn requester(n: i64) -> Requester {
    match n % 3 {
        0 => Requester {
            address: Some("192.0.2.1".into()),
            authentication: Some(Authentication::ApiKey),
            api_key: Some("deployments".into()),
        },
        1 => Requester {
            address: Some("2001:db8::1".into()),
            authentication: Some(Authentication::Session),
            api_key: None,
        },
        _ => Requester::default(),
    }
}

async fn some(db: &Db) {
    let rows = [
        event(0, "lexicon.created", Severity::Info, Some("com.example.note")),
        event(1, "lexicon.deleted", Severity::Info, Some("com.example.like")),
        event(2, "lexicons.other", Severity::Info, None),
        event(3, "script.error", Severity::Error, Some("com.example.100%")),
        event(4, "script.log", Severity::Warn, Some("xrpc.query:com.example.list")),
        event(5, "jetstream.connected", Severity::Info, None),
    ];
    events::insert(db, &rows).await.unwrap();
}

async fn numbers(db: &Db, filter: EventFilter) -> Vec<u32> {
    let rows = events::list(db, &filter, 100).await.unwrap();
    // A stream of new events selects them by the same conditions.
    let all = events::list(db, &EventFilter::default(), 100).await.unwrap();
    let is_on_page = |row: &&EventRow| filter.after.is_some() || filter.matches(row);
    let matching: Vec<_> = all.iter().filter(is_on_page).map(|row| &row.id).collect();
    assert!(filter.after.is_some() || matching == rows.iter().map(|row| &row.id).collect::<Vec<_>>());
    rows.iter().map(|row| row.id[2..].parse().unwrap()).collect()
}

on_both!(
    are_returned_newest_first_as_written,
    filters,
    pages_by_time_and_id,
    old_events_are_deleted_in_steps,
    matching_events_are_counted_and_deleted,
    any_subject_can_be_written
);

async fn are_returned_newest_first_as_written(db: TestDb) {
    events::insert(&db, &[]).await.unwrap();
    some(&db).await;
    // Written again, as by a retry after a lost response: stored once.
    some(&db).await;
    let rows = events::list(&db, &EventFilter::default(), 100).await.unwrap();
    assert_eq!(rows.len(), 6);
    assert_eq!(rows[0], event(5, "jetstream.connected", Severity::Info, None));
    assert_eq!(rows[2], event(3, "script.error", Severity::Error, Some("com.example.100%")));
}

async fn filters(db: TestDb) {
    some(&db).await;
    let category = |list: &[&str]| EventFilter {
        categories: list.iter().map(|&c| c.to_owned()).collect(),
        ..EventFilter::default()
    };
    let subject = |text: &str| EventFilter { subject: Some(text.into()), ..EventFilter::default() };
    let whole = |text: &str| EventFilter { subject_is: Some(text.into()), ..EventFilter::default() };
    let address = |text: &str| EventFilter { address: Some(text.into()), ..EventFilter::default() };
    for (filter, expected) in [
        (EventFilter { event_type: Some("script.error".into()), ..EventFilter::default() }, vec![3]),
        (EventFilter { event_type: Some("script".into()), ..EventFilter::default() }, vec![]),
        (category(&["lexicon"]), vec![1, 0]),
        (category(&["lexicon", "script"]), vec![4, 3, 1, 0]),
        (
            EventFilter { severities: vec![Severity::Error, Severity::Warn], ..EventFilter::default() },
            vec![4, 3],
        ),
        (subject("example.l"), vec![4, 1]),
        (subject("%"), vec![3]),
        (subject("EXAMPLE"), vec![]),
        (subject("_"), vec![]),
        (EventFilter { actor: Some("did:plc:a".into()), ..EventFilter::default() }, vec![4, 2, 0]),
        (EventFilter { actor: Some("did:plc:a".into()), ..category(&["lexicon"]) }, vec![0]),
        (EventFilter { actor: Some("did:plc".into()), ..EventFilter::default() }, vec![]),
        (subject("\0"), vec![]),
        (whole("com.example.note"), vec![0]),
        (whole("com.example"), vec![]),
        (whole("com.example.note\0"), vec![]),
        (address("192.0.2.1"), vec![3, 0]),
        (address("192.0.2"), vec![]),
        (EventFilter { subject_is: Some("com.example.note".into()), ..address("192.0.2.1") }, vec![0]),
        (EventFilter { subject: Some("note".into()), ..category(&["lexicon"]) }, vec![0]),
        (EventFilter { severities: vec![Severity::Error], ..category(&["lexicon"]) }, vec![]),
    ] {
        assert_eq!(numbers(&db, filter.clone()).await, expected, "{filter:?}");
    }
}

async fn pages_by_time_and_id(db: TestDb) {
    some(&db).await;
    let mut after = None;
    let mut seen = Vec::new();
    loop {
        let filter = EventFilter { after: after.take(), ..EventFilter::default() };
        let rows = events::list(&db, &filter, 2).await.unwrap();
        let Some(last) = rows.last() else { break };
        after = Some(EventKeyset { created_at: last.created_at, id: Some(last.id.clone()) });
        seen.extend(rows.into_iter().map(|row| row.id));
    }
    assert_eq!(seen, ["id005", "id004", "id003", "id002", "id001", "id000"]);
    let after = Some(EventKeyset { created_at: Timestamp(2), id: None });
    assert_eq!(numbers(&db, EventFilter { after, ..EventFilter::default() }).await, [3, 2, 1, 0]);
}

async fn old_events_are_deleted_in_steps(db: TestDb) {
    some(&db).await;
    let old = EventFilter { before: Some(Timestamp(2)), ..EventFilter::default() };
    for removed in [3, 1, 0] {
        assert_eq!(events::delete(&db, &old, 3).await.unwrap(), removed);
    }
    assert_eq!(numbers(&db, EventFilter::default()).await, [5, 4]);
}

async fn matching_events_are_counted_and_deleted(db: TestDb) {
    some(&db).await;
    let between = |from, before| EventFilter {
        from: Some(Timestamp(from)),
        before: Some(Timestamp(before)),
        ..EventFilter::default()
    };
    assert_eq!(numbers(&db, between(1, 2)).await, [3, 2]);
    assert_eq!(numbers(&db, between(2, 2)).await, [0; 0]);
    let errors = EventFilter { severities: vec![Severity::Error], ..between(0, 2) };
    for (filter, count) in [(&EventFilter::default(), 6), (&between(1, 2), 2), (&errors, 1)] {
        assert_eq!(events::count(&db, filter).await.unwrap(), count, "{filter:?}");
    }
    assert_eq!(events::delete(&db, &errors, 100).await.unwrap(), 1);
    assert_eq!(numbers(&db, EventFilter::default()).await, [5, 4, 2, 1, 0]);
}

async fn any_subject_can_be_written(db: TestDb) {
    events::insert(&db, &[event(1, "a.b", Severity::Info, Some("nul \0 and \u{1f389}"))]).await.unwrap();
    assert_eq!(numbers(&db, EventFilter::default()).await, [1]);
}
