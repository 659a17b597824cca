//! The history of the server's load, in steps of a minute, five minutes and an hour (docs/adr/0069, 0148).
//!
//! Every host counts in memory and adds its counts to the steps in the database, so the history is that of all hosts.

mod last_minutes;
mod latencies;
mod metric;
mod recent;
mod recorder;
mod series;
mod steps;
mod totals;

pub use last_minutes::LastMinutes;
pub use metric::{Measure, Metric};
pub use recent::Recent;
pub use recorder::{FLUSH_EVERY, History, kept_seconds};
pub use series::{Query, Read, Series};
pub use steps::{Period, Steps};
pub use totals::{Total, totals};
