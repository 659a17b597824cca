//! Alerts: conditions about measurements that operators define. One host at a time checks them every 20 seconds, and reports
//! each change of state once, to the event log and to a webhook (docs/adr/0149).

mod measure;
mod rule;
#[cfg(test)]
mod tests;
mod webhook;

mod check;

pub use check::Alerts;
pub use measure::{Measured, measured};
pub use rule::{InvalidRule, validate};

/// Alerts in all. Each costs a few reads of indexes in each check.
pub const MAX_ALERTS: i64 = 50;
