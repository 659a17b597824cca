//! Alerts on both databases: the states, the calls of webhooks, the values.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use belvedere_standins::database::Database;
use belvedere_standins::upstream::{Upstream, respond};
use serde_json::Value;

use super::check::Alerts;
use super::measure;
use crate::core::Core;
use crate::history::{History, Measure};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_protocol::crypto::mac;
use belvedere_storage::store::alerts::{
    self, AlertCondition, AlertMetric, AlertRow, AlertRule, AlertState, AlertTarget,
};
use belvedere_storage::store::{Backend, Db};

const NOW: Timestamp = Timestamp(1_800_000_030_000_000);
const METHOD: &str = "com.example.list";

struct World {
    db: Db,
    clock: Clock,
    alerts: Alerts,
    history: History,
}

impl World {
    async fn on(database: &Database) -> Self {
        let db = Db::open(&database.url, 4).await.unwrap();
        db.migrate().await.unwrap();
        let clock = Clock::fixed(NOW);
        let alerts = Alerts::new(Core::testing(&db, &clock), "https://me.example".to_owned());
        Self { db, history: History::new(clock.clone()), clock, alerts }
    }

    async fn add(&self, id: &str, rule: &AlertRule) {
        assert!(alerts::create(&self.db, id, rule, "did:web:admin", 50, NOW).await.unwrap());
    }

    async fn calls(&self, failed: &[bool]) {
        for failed in failed {
            self.history.request(METHOD, "app", Duration::from_millis(3), *failed);
        }
        self.history.flush(&self.db).await.unwrap();
    }

    async fn check_after(&self, seconds: i64) -> AlertRow {
        self.clock.set(self.clock.now().plus_seconds(seconds));
        self.alerts.check(&self.db).await.unwrap();
        alerts::list(&self.db).await.unwrap().remove(0)
    }
}

fn rule(metric: AlertMetric) -> AlertRule {
    AlertRule {
        name: "Too many errors".to_owned(),
        metric,
        label: None,
        condition: AlertCondition::Above,
        threshold: 10.0,
        minutes: 2,
        target: AlertTarget::Log,
        url: None,
        secret: None,
        is_enabled: true,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_called_once_for_each_change() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let world = World::on(&database).await;
        let status = Arc::new(AtomicU16::new(200));
        let answered = Arc::clone(&status);
        let hook =
            Upstream::start(move |_| respond(answered.load(Ordering::SeqCst), "text/plain", "x")).await;
        let webhook = AlertRule {
            label: Some(METHOD.to_owned()),
            target: AlertTarget::Webhook,
            url: Some(format!("{}/hook?key=1", hook.url())),
            secret: Some(world.alerts.seal("a", "secret")),
            ..rule(AlertMetric::ErrorRate)
        };
        world.add("a", &webhook).await;
        assert_eq!(world.check_after(0).await.state, AlertState::Ok, "no calls, no value");
        world.calls(&[true, true, false, false]).await;
        let pending = world.check_after(20).await;
        assert_eq!((pending.state, pending.value), (AlertState::Pending, Some(50.0)));
        assert_eq!(world.check_after(100).await.state, AlertState::Pending);
        assert!(hook.requests().is_empty());
        assert_eq!(world.check_after(20).await.state, AlertState::Firing);
        assert_eq!(world.check_after(20).await.state, AlertState::Firing);
        assert_eq!(hook.requests().len(), 1, "once");

        // The calls that failed are over, and without others nothing says that all is well.
        let silent = world.check_after(600).await;
        assert_eq!((silent.state, silent.value), (AlertState::Firing, None));
        assert_eq!(hook.requests().len(), 1, "no value is no change");
        world.calls(&[false]).await;
        let resolved = world.check_after(20).await;
        assert_eq!((resolved.state, resolved.value, resolved.notice), (AlertState::Ok, Some(0.0), None));
        let requests = hook.requests();
        let states: Vec<Value> =
            requests.iter().map(|request| serde_json::from_slice(&request.body).unwrap()).collect();
        assert_eq!(states.len(), 2);
        assert_eq!((&states[0]["state"], &states[1]["state"]), (&"firing".into(), &"resolved".into()));
        assert_eq!(
            (&states[0]["instance"], &states[0]["value"]),
            (&"https://me.example".into(), &50.0.into())
        );
        assert_eq!(states[0]["alert"]["metric"], "error_rate");
        let signature = requests[0].headers["belvedere-signature"].to_str().unwrap().to_owned();
        let (time, tag) = signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
        let message = [time.as_bytes(), b".", &requests[0].body].concat();
        assert_eq!(tag, hex::encode(mac::tag(b"secret", &message)));

        // A webhook that fails is called again, but not for ever.
        status.store(503, Ordering::SeqCst);
        world.calls(&[true, true]).await;
        world.check_after(0).await;
        let failed = world.check_after(120).await;
        assert_eq!((failed.state, failed.attempts), (AlertState::Firing, 1));
        assert_eq!(failed.delivery_error.as_deref(), Some("the server answered 503 Service Unavailable"));
        for _ in 0..8 {
            world.check_after(1).await;
        }
        assert_eq!(hook.requests().len(), 2 + 5);
        assert_eq!(world.check_after(1).await.notice, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_that_is_switched_off_is_resolved() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let world = World::on(&database).await;
        let always = AlertRule { threshold: 0.0, minutes: 0, ..rule(AlertMetric::DatabaseBytes) };
        world.add("a", &always).await;
        assert_eq!(world.check_after(0).await.state, AlertState::Firing, "at once");
        let off = AlertRule { is_enabled: false, ..always };
        alerts::update(&world.db, "a", &off, None, NOW).await.unwrap();
        assert_eq!(world.check_after(20).await.state, AlertState::Ok);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_has_a_value() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let world = World::on(&database).await;
        let value = async |metric| measure::value(&world.db, &rule(metric), NOW).await.unwrap();
        for metric in [AlertMetric::ErrorRate, AlertMetric::LatencyP99, AlertMetric::StreamLag] {
            assert_eq!(value(metric).await, None, "{metric}");
        }
        for metric in [AlertMetric::Requests, AlertMetric::DeadLetters, AlertMetric::FailedRepos] {
            assert_eq!(value(metric).await, Some(0.0), "{metric}");
        }
        world.history.record(Measure::StreamLag, "", 1, 4.5);
        world.history.record(Measure::ClientRateLimited, "app", 11, 0.0);
        world.history.record(Measure::ScriptErrors, "xrpc.query:a.b.c", 22, 0.0);
        world.calls(&[false, true]).await;
        assert_eq!(value(AlertMetric::StreamLag).await, Some(4.5));
        assert_eq!(value(AlertMetric::ErrorRate).await, Some(50.0));
        // The period is that of five minutes, and of the one that has begun half a minute ago.
        assert_eq!(value(AlertMetric::ClientRateLimited).await, Some(2.0));
        assert_eq!(value(AlertMetric::ScriptErrors).await, Some(4.0));
        assert!(value(AlertMetric::LatencyP99).await.is_some_and(|millis| millis > 1.0 && millis <= 3.0));
        assert!(value(AlertMetric::DatabaseBytes).await.is_some_and(|bytes| bytes > 10_000.0));
        let has_disk = value(AlertMetric::DiskFreeBytes).await.is_some();
        assert_eq!(has_disk, world.db.backend() == Backend::Sqlite);
        let other = AlertRule { label: Some("other".to_owned()), ..rule(AlertMetric::Requests) };
        assert_eq!(measure::value(&world.db, &other, NOW).await.unwrap(), Some(0.0));
    }
}
