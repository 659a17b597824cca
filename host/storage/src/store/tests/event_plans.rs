//! The lists of the event log by conditions that few events meet walk an index: none walks the log, and none sorts.

use super::moderation_plans::{plan, with_values};
use crate::store::events::{self, EventFilter, EventKeyset, EventRow, Requester, Severity, Value};
use crate::store::on;
use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;

/// Events of one actor, address and type, and among them a few others.
async fn fill(db: &TestDb) {
    let events: Vec<_> = (0..4_000)
        .map(|n| EventRow {
            id: format!("id{n:04}"),
            event_type: "script.log".into(),
            severity: Severity::Info,
            actor_did: Some(format!("did:plc:{}", if n % 1_000 == 0 { "rare" } else { "common" })),
            subject: Some(format!("at://did:plc:x/a.b.c/{n}")),
            detail: "{}".into(),
            created_at: Timestamp(n),
            requester: Requester {
                address: Some(if n % 1_000 == 1 { "192.0.2.1" } else { "192.0.2.2" }.into()),
                ..Requester::default()
            },
        })
        .collect();
    events::insert(db, &events).await.unwrap();
}

on_both!(rare_conditions_walk_an_index);

async fn rare_conditions_walk_an_index(db: TestDb) {
    fill(&db).await;
    on!(&*db, writer, |pool| sqlx::query("ANALYZE events").execute(pool).await.map(drop)).unwrap();
    let by = |condition: &str| {
        let is = |name| (condition == name).then_some(());
        EventFilter {
            actor: is("events_actor").map(|()| "did:plc:rare".into()),
            address: is("events_address").map(|()| "192.0.2.1".into()),
            subject_is: is("events_subject").map(|()| "at://did:plc:x/a.b.c/7".into()),
            ..EventFilter::default()
        }
    };
    let after = Some(EventKeyset { created_at: Timestamp(3_500), id: Some("id3500".into()) });
    for index in ["events_actor", "events_address", "events_subject"] {
        let first = by(index);
        let next = EventFilter { after: after.clone(), ..first.clone() };
        let of_type = EventFilter { event_type: Some("script.log".into()), ..first.clone() };
        let of_category = EventFilter { categories: vec!["script".into()], ..next.clone() };
        for filter in [first, next, of_type, of_category] {
            let (conditions, values) = events::compile(db.backend(), &filter);
            let mut values: Vec<_> = values.iter().map(Value::sql).collect();
            values.push("50".into());
            let values: Vec<_> = values.iter().map(String::as_str).collect();
            let plan = plan(&db, &with_values(&events::list_sql(&conditions, values.len()), &values)).await;
            assert!(plan.contains(index), "{index}: {plan}");
            for bad in ["TEMP B-TREE", "Sort", "Seq Scan", "SCAN"] {
                assert!(!plan.contains(bad), "{bad}: {plan}");
            }
        }
    }
}
