//! Alerts and metrics as the API shows them.

use schemars::JsonSchema;
use serde::Serialize;

use belvedere_base::clock::Timestamp;
use belvedere_instance::alerts::{Measured, measured};
use belvedere_storage::store::Backend;
use belvedere_storage::store::alerts::{
    AlertCondition, AlertMetric, AlertRow, AlertRule, AlertState, AlertTarget,
};

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Alert")]
pub struct AlertView {
    id: String,
    name: String,
    metric: AlertMetric,
    label: Option<String>,
    condition: AlertCondition,
    threshold: f64,
    minutes: i64,
    target: AlertTarget,
    url: Option<String>,
    is_enabled: bool,
    revision: i64,
    state: AlertState,
    /// The time at which the state began.
    state_at: Timestamp,
    /// The last measured value. Null: there was none.
    value: Option<f64>,
    /// The time of the last check. Null: not checked yet.
    checked_at: Option<Timestamp>,
    /// The reason why the last call of the webhook failed.
    delivery_error: Option<String>,
    created_by: String,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<AlertRow> for AlertView {
    fn from(row: AlertRow) -> Self {
        let AlertRule { name, metric, label, condition, threshold, minutes, target, url, is_enabled, .. } =
            row.rule;
        Self {
            id: row.id,
            name,
            metric,
            label,
            condition,
            threshold,
            minutes,
            target,
            url,
            is_enabled,
            revision: row.revision,
            state: row.state,
            state_at: row.state_at,
            value: row.value,
            checked_at: row.checked_at,
            delivery_error: row.delivery_error,
            created_by: row.created_by,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct AlertMetricInfo {
    metric: AlertMetric,
    unit: &'static str,
    /// The kind of label that an alert may be limited to: `method`, `client` or `script`. Null: none.
    by: Option<&'static str>,
    description: &'static str,
}

impl AlertMetricInfo {
    /// The metrics that are measured with this database.
    pub fn all(backend: Backend) -> Vec<Self> {
        let is_measured =
            |metric: &AlertMetric| *metric != AlertMetric::DiskFreeBytes || backend == Backend::Sqlite;
        let info = |metric: AlertMetric| {
            let Measured { unit, by, description } = measured(metric);
            Self { metric, unit, by, description }
        };
        AlertMetric::ALL.iter().copied().filter(is_measured).map(info).collect()
    }
}
