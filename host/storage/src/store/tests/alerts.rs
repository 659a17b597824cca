//! Alerts: rules with revisions, states, notices.

use crate::store::alerts::{
    self, AlertCondition, AlertMetric, AlertNotice, AlertRule, AlertState, AlertTarget, Outcome,
};
use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;

fn rule(name: &str) -> AlertRule {
    AlertRule {
        name: name.to_owned(),
        metric: AlertMetric::ErrorRate,
        label: Some("com.example.list".to_owned()),
        condition: AlertCondition::Above,
        threshold: 2.5,
        minutes: 5,
        target: AlertTarget::Webhook,
        url: Some("https://hooks.example/a".to_owned()),
        secret: Some(vec![1, 2, 3]),
        is_enabled: true,
    }
}

fn outcome(state: AlertState, at: i64, notice: Option<AlertNotice>) -> Outcome {
    Outcome { state, state_at: Timestamp(at), value: Some(9.0), notice }
}

on_both!(a_change_names_its_revision, a_notice_is_sent_or_dropped, a_check_of_an_older_rule_is_not_stored);

async fn a_change_names_its_revision(db: TestDb) {
    let now = Timestamp(1_000);
    assert!(alerts::create(&db, "a", &rule("one"), "did:web:me", 2, now).await.unwrap());
    assert!(alerts::create(&db, "b", &rule("two"), "did:web:me", 2, now).await.unwrap());
    assert!(!alerts::create(&db, "c", &rule("three"), "did:web:me", 2, now).await.unwrap(), "too many");
    let one = alerts::get(&db, "a").await.unwrap().unwrap();
    assert_eq!((one.rule, one.revision, one.state), (rule("one"), 1, AlertState::Ok));
    let changed = AlertRule { label: None, url: None, secret: None, target: AlertTarget::Log, ..rule("new") };
    assert!(alerts::update(&db, "a", &changed, Some(1), Timestamp(2_000)).await.unwrap());
    assert!(!alerts::update(&db, "a", &rule("late"), Some(1), Timestamp(3_000)).await.unwrap());
    assert!(alerts::update(&db, "a", &changed, None, Timestamp(3_000)).await.unwrap());
    let one = alerts::get(&db, "a").await.unwrap().unwrap();
    assert_eq!((one.rule, one.revision, one.updated_at), (changed, 3, Timestamp(3_000)));
    assert_eq!(alerts::list(&db).await.unwrap().len(), 2);
    assert!(alerts::delete(&db, "a").await.unwrap());
    assert!(!alerts::delete(&db, "a").await.unwrap());
    assert_eq!(alerts::get(&db, "a").await.unwrap(), None);
}

async fn a_notice_is_sent_or_dropped(db: TestDb) {
    alerts::create(&db, "a", &rule("one"), "did:web:me", 9, Timestamp(1)).await.unwrap();
    let get = async || alerts::get(&db, "a").await.unwrap().unwrap();
    let firing = outcome(AlertState::Firing, 5, Some(AlertNotice::Firing));
    assert!(alerts::set_outcome(&db, ("a", 1), firing, Timestamp(10)).await.unwrap());
    let row = get().await;
    assert_eq!((row.state, row.state_at, row.value), (AlertState::Firing, Timestamp(5), Some(9.0)));
    assert_eq!((row.notice, row.notice_at), (Some(AlertNotice::Firing), Some(Timestamp(10))));
    // The next check changes nothing, and the notice stays.
    alerts::set_outcome(&db, ("a", 1), outcome(AlertState::Firing, 5, None), Timestamp(20)).await.unwrap();
    alerts::set_sent(&db, ("a", Timestamp(10)), Some("refused"), 2).await.unwrap();
    let row = get().await;
    assert_eq!((row.notice, row.attempts), (Some(AlertNotice::Firing), 1));
    alerts::set_sent(&db, ("a", Timestamp(10)), Some("refused"), 2).await.unwrap();
    let row = get().await;
    assert_eq!((row.notice, row.delivery_error.as_deref()), (None, Some("refused")), "dropped");
    let resolved = outcome(AlertState::Ok, 30, Some(AlertNotice::Resolved));
    alerts::set_outcome(&db, ("a", 1), resolved, Timestamp(30)).await.unwrap();
    assert_eq!(get().await.attempts, 0);
    // An attempt with the notice before says nothing about this one.
    alerts::set_sent(&db, ("a", Timestamp(10)), None, 2).await.unwrap();
    assert_eq!(get().await.notice, Some(AlertNotice::Resolved));
    alerts::set_sent(&db, ("a", Timestamp(30)), None, 2).await.unwrap();
    let row = get().await;
    assert_eq!((row.notice, row.delivery_error), (None, None));
}

async fn a_check_of_an_older_rule_is_not_stored(db: TestDb) {
    alerts::create(&db, "a", &rule("one"), "did:web:me", 9, Timestamp(1)).await.unwrap();
    alerts::update(&db, "a", &rule("two"), None, Timestamp(2)).await.unwrap();
    let firing = outcome(AlertState::Firing, 5, Some(AlertNotice::Firing));
    assert!(!alerts::set_outcome(&db, ("a", 1), firing, Timestamp(10)).await.unwrap());
    assert_eq!(alerts::get(&db, "a").await.unwrap().unwrap().state, AlertState::Ok);
}
