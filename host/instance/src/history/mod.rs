//! The history of the server's load, in steps of five minutes, kept for a week (docs/adr/0069).
//!
//! Every host counts in memory and adds its counts to the steps in the database, so the history is that of all hosts.

mod latencies;
mod metric;
mod recent;
mod recorder;
mod series;
mod totals;

pub use metric::{Measure, Metric};
pub use recent::Recent;
pub use recorder::{FLUSH_EVERY, History, KEPT_SECONDS, STEP_SECONDS};
pub use series::{Query, Series, Steps};
pub use totals::{Total, totals};
