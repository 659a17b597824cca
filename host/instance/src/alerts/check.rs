//! Checks alerts, and sends the changes of their states.

use std::time::Duration;

use futures_util::future::join_all;

use belvedere_base::clock::Timestamp;
use belvedere_storage::store::alerts::{
    self, AlertCondition, AlertNotice, AlertRow, AlertRule, AlertState, AlertTarget, Outcome,
};
use belvedere_storage::store::{Db, StoreError};

use super::measure;
use super::webhook::{self, CallError};
use crate::core::Core;
use crate::events::Event;

/// Interval between checks. Hosts store their counts as often.
const EVERY: Duration = Duration::from_secs(20);

/// Calls of a webhook for a change of state, one in each check. A server that is being restarted is back by then.
const MAX_ATTEMPTS: i64 = 5;

/// The alerts of this instance. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Alerts {
    core: Core,
    /// The instance's, for the receivers of webhooks.
    origin: String,
}

impl Alerts {
    pub fn new(core: Core, origin: String) -> Self {
        Self { core, origin }
    }

    /// A secret for an alert that the operator has given none.
    pub fn new_secret(&self) -> String {
        webhook::new_secret(&self.core)
    }

    /// Seals the secret of an alert.
    pub fn seal(&self, id: &str, secret: &str) -> Vec<u8> {
        webhook::seal(&self.core, id, secret)
    }

    /// Sends a test to the target of an alert. The event log has it in any case.
    ///
    /// # Errors
    /// When the webhook was not called, or did not accept the call.
    pub async fn test(&self, alert: &AlertRow) -> Result<(), CallError> {
        match alert.rule.target {
            AlertTarget::Log => Ok(()),
            AlertTarget::Webhook => {
                webhook::call(&self.core, &self.origin, alert, "test", self.core.clock.now()).await
            }
        }
    }

    /// Checks all alerts again and again, until it is cancelled. `db` is the handle of the lease.
    pub async fn check_periodically(&self, db: &Db) {
        loop {
            tokio::time::sleep(EVERY).await;
            if let Err(error) = self.check(db).await {
                tracing::warn!(%error, "alerts could not be checked; they are checked again");
            }
        }
    }

    /// Checks all alerts once, and calls the webhooks that have not been called yet.
    ///
    /// # Errors
    /// The first failure of the store. One alert that can't be checked does not keep the others from being checked.
    pub(super) async fn check(&self, db: &Db) -> Result<(), StoreError> {
        let now = self.core.clock.now();
        let mut checked = Vec::new();
        for alert in alerts::list(db).await? {
            checked.push(self.check_one(db, &alert, now).await);
        }
        let waiting = alerts::list(db).await?.into_iter().filter_map(|alert| {
            let (notice, at) = (alert.notice?, alert.notice_at?);
            Some(async move { self.send(db, &alert, notice, at).await })
        });
        checked.into_iter().chain(join_all(waiting).await).collect()
    }

    async fn check_one(&self, db: &Db, alert: &AlertRow, now: Timestamp) -> Result<(), StoreError> {
        let rule = &alert.rule;
        if !rule.is_enabled && alert.state == AlertState::Ok {
            return Ok(());
        }
        let value = measure::value(db, rule, now).await?;
        let (state, change) = next(alert, holds(rule, value), now);
        let notice = change.filter(|_| rule.target == AlertTarget::Webhook);
        let state_at = if state == alert.state { alert.state_at } else { now };
        let outcome = Outcome { state, state_at, value, notice };
        let is_stored = alerts::set_outcome(db, (&alert.id, alert.revision), outcome, now).await?;
        // Another revision is checked next time.
        if let Some(change) = change.filter(|_| is_stored) {
            self.report(alert, change, value);
        }
        Ok(())
    }

    fn report(&self, alert: &AlertRow, change: AlertNotice, value: Option<f64>) {
        let (id, AlertRule { name, metric, label, threshold, .. }) = (alert.id.clone(), alert.rule.clone());
        let metric = metric.as_str();
        match change {
            AlertNotice::Firing => {
                tracing::warn!(alert = name, metric, label, value, threshold, "an alert has fired");
                self.core.events.record(Event::AlertFired { id, name, metric, label, value, threshold });
            }
            AlertNotice::Resolved => {
                tracing::info!(alert = name, metric, label, value, "an alert is resolved");
                self.core.events.record(Event::AlertResolved { id, name, metric, label, value });
            }
        }
    }

    async fn send(
        &self,
        db: &Db,
        alert: &AlertRow,
        notice: AlertNotice,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let sent = webhook::call(&self.core, &self.origin, alert, notice.as_str(), at).await;
        let error = sent.err().map(|error| error.to_string());
        alerts::set_sent(db, (&alert.id, at), error.as_deref(), MAX_ATTEMPTS).await?;
        let attempts = alert.attempts + 1;
        if let Some(error) = error.filter(|_| attempts == 1 || attempts == MAX_ATTEMPTS) {
            let (id, name) = (alert.id.clone(), alert.rule.name.clone());
            self.core.events.record(Event::AlertDeliveryFailed { id, name, attempts, error });
        }
        Ok(())
    }
}

/// Whether the condition holds; `None` without a value. It does not for an alert that is switched off.
fn holds(rule: &AlertRule, value: Option<f64>) -> Option<bool> {
    if !rule.is_enabled {
        return Some(false);
    }
    value.map(|value| match rule.condition {
        AlertCondition::Above => value > rule.threshold,
        AlertCondition::Below => value < rule.threshold,
    })
}

/// The next state, and the change that is reported. A value that is missing is no proof that all is well: an alert that fires
/// goes on.
fn next(alert: &AlertRow, holds: Option<bool>, now: Timestamp) -> (AlertState, Option<AlertNotice>) {
    let holds = holds.unwrap_or(alert.state == AlertState::Firing);
    let has_lasted = |since: Timestamp| now >= since.plus_seconds(60 * alert.rule.minutes);
    match (alert.state, holds) {
        (AlertState::Firing, true) => (AlertState::Firing, None),
        (AlertState::Firing, false) => (AlertState::Ok, Some(AlertNotice::Resolved)),
        (AlertState::Ok | AlertState::Pending, false) => (AlertState::Ok, None),
        (AlertState::Ok, true) if !has_lasted(now) => (AlertState::Pending, None),
        (AlertState::Pending, true) if !has_lasted(alert.state_at) => (AlertState::Pending, None),
        (AlertState::Ok | AlertState::Pending, true) => (AlertState::Firing, Some(AlertNotice::Firing)),
    }
}
