//! Measures the largest accepted inputs of other parties, in the worst shapes that were found: what one costs this server,
//! and how long others wait meanwhile for a record of the stream and for a list.

mod kinds;
mod observer;
mod records;
mod scene;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use self::observer::Waits;
use self::scene::Scene;
use crate::Plan;

/// One measured input.
#[derive(Debug)]
pub struct Row {
    pub case: String,
    /// Bytes of one input.
    pub bytes: usize,
    /// CPU time of the server for one input.
    pub cpu: Duration,
    /// Memory beyond that of the idle server, at most, in bytes.
    pub memory: u64,
    pub idle: Waits,
    pub beside: Waits,
}

/// Measures the cases whose name contains `plan.only`.
pub async fn measure(directory: &Path, plan: &Plan) -> anyhow::Result<Vec<Row>> {
    let scene = Scene::start(directory, plan).await?;
    let mut rows = records::measure(&scene, plan).await?;
    rows.extend(kinds::measure(&scene, plan).await?);
    Ok(rows)
}

/// The header of the Markdown table.
pub const HEAD: &str = "| Input | KB | CPU ms | memory MB | a record of the stream waits, idle ms | at most, beside it ms | a list's p99, idle ms | beside it ms | times |
|---|---:|---:|---:|---:|---:|---:|---:|---:|";

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, bytes, cpu, memory, idle, beside } = self;
        let (kb, ms) = (bytes.div_ceil(1_000), cpu.as_secs_f64() * 1e3);
        write!(f, "| {case} | {kb} | {ms:.0} | {} |", memory >> 20)?;
        write!(f, " {:.0} | {:.0} |", idle.longest_record, beside.longest_record)?;
        let times = beside.list_p99 / idle.list_p99;
        write!(f, " {:.2} | {:.2} | {times:.1} |", idle.list_p99, beside.list_p99)
    }
}
