//! Measures how one client slows down another: the latency of a constant query, alone and while a greedy client runs
//! scripts at full speed on every core.

use std::fmt;
use std::time::Duration;

use crate::{Plan, http, server};

/// The number of requests that the greedy client has in flight.
const GREEDY: usize = 16;

/// Nearly as many instructions as a run may execute.
const LOOP: &str = "function handle() local n = 0 for i = 1, 490000 do n = n + i end return { n = n } end";
const CONSTANT: &str = "function handle() return { ok = true } end";

/// Latencies of the modest client, in milliseconds.
#[derive(Debug)]
pub struct Fairness {
    how: &'static str,
    alone: (f64, f64),
    beside: (f64, f64),
    /// The greedy client's successful and refused runs per second.
    greedy: (f64, f64),
}

/// Measures on a new server, which gets these environment variables.
pub async fn measure(
    how: &'static str,
    database: &str,
    plan: &Plan,
    environment: &[(&'static str, &str)],
) -> anyhow::Result<Fairness> {
    let server = server::start_with(database, "none", environment).await;
    let modest = server::add_script(&server, "constant", CONSTANT).await;
    let greedy = server::add_script(&server, "loop", LOOP).await;
    let ours = [("x-client-key", server.client_key.clone())];
    let theirs = [("x-client-key", server.create_client("greedy").await)];
    http::run_apart(server.address, &modest, &ours, Duration::from_secs(1)).await?;
    let alone = http::run_apart(server.address, &modest, &ours, plan.seconds).await?;
    let (beside, others) = tokio::join!(
        http::run_apart(server.address, &modest, &ours, plan.seconds),
        http::run(server.address, &greedy, &theirs, GREEDY, plan.seconds),
    );
    let (beside, others) = (beside?, others?);
    anyhow::ensure!(alone.failures + beside.failures == 0, "the modest client was refused");
    let of = |run: &http::Run| (run.percentile(0.5), run.percentile(0.99));
    let second = others.elapsed.as_secs_f64();
    let greedy = ((others.requests - others.failures) as f64 / second, others.failures as f64 / second);
    Ok(Fairness { how, alone: of(&alone), beside: of(&beside), greedy })
}

/// The header of the Markdown table.
pub const HEAD: &str = "| Setting | alone p50 ms | p99 ms | beside loops p50 ms | p99 ms | times p99 | loops per second | refused per second |
|---|---:|---:|---:|---:|---:|---:|---:|";

impl fmt::Display for Fairness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { how, alone, beside, greedy } = self;
        write!(f, "| {how} | {:.2} | {:.2} | {:.2} | {:.2} |", alone.0, alone.1, beside.0, beside.1)?;
        write!(f, " {:.1} | {:.0} | {:.0} |", beside.1 / alone.1, greedy.0, greedy.1)
    }
}
