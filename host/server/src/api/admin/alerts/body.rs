//! The rule of an alert in a request.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;
use belvedere_storage::store::alerts::{AlertCondition, AlertMetric, AlertRule, AlertTarget};
use belvedere_web::http::Error;

/// Bytes of a secret that the operator chooses, at least and at most.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 16..=256;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct AlertBody {
    name: String,
    metric: AlertMetric,
    /// The method, API client (its id) or script that is measured. Absent: all.
    label: Option<String>,
    condition: AlertCondition,
    /// In the unit of the metric.
    threshold: f64,
    /// Minutes for which the condition must hold, 0 to 1440.
    minutes: i64,
    target: AlertTarget,
    /// The address of the webhook.
    url: Option<String>,
    /// The secret of the webhook's signatures, 16 to 256 bytes. Absent: the one that the alert has, or a new one, which the answer
    /// shows.
    secret: Option<String>,
    /// True if absent.
    is_enabled: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ChangedAlert {
    #[serde(flatten)]
    pub(super) body: AlertBody,
    /// The revision that it changes: 409 if there is another. Absent: it changes whichever there is.
    pub(super) revision: Option<u32>,
}

impl AlertBody {
    /// Whether it is signed with a secret that the body does not have.
    pub fn needs_secret(&self) -> bool {
        self.target == AlertTarget::Webhook && self.secret.is_none()
    }

    /// The rule of the alert `id`. `generated`: the secret that was made for it. `kept`: the one that it has, sealed.
    ///
    /// # Errors
    /// 400 for a secret that is too short or too long.
    pub fn rule(
        self,
        app: &App,
        id: &str,
        generated: Option<&str>,
        kept: Option<Vec<u8>>,
    ) -> Result<AlertRule, Error> {
        let chosen = self.secret.as_deref();
        if chosen.is_some_and(|secret| !SECRET_BYTES.contains(&secret.len())) {
            return Err(Error::bad_request(
                "secret must have 16 to 256 bytes; leave it out for a generated one",
            ));
        }
        let secret = match self.target {
            AlertTarget::Log => None,
            AlertTarget::Webhook => chosen.or(generated).map(|secret| app.alerts.seal(id, secret)).or(kept),
        };
        Ok(AlertRule {
            name: self.name,
            metric: self.metric,
            label: self.label.filter(|label| !label.is_empty()),
            condition: self.condition,
            threshold: self.threshold,
            minutes: self.minutes,
            target: self.target,
            url: self.url.filter(|url| !url.is_empty()),
            secret,
            is_enabled: self.is_enabled.unwrap_or(true),
        })
    }
}
