//! Remembers what scripts' statements cost, so that those that cost little are no scans.
//!
//! A statement is a tenant's text; its parameters may make it cheap or expensive, so a cheap one runs with a time limit.
//! One that exceeds it becomes a scan again, has to be cheap twice as often before it is taken for cheap the next time,
//! and bars all statements of its tenant from being so for a while. A tenant that alternates between cheap and expensive
//! parameters keeps the permits of its share for a few milliseconds per second at most. On PostgreSQL, statements that were stopped
//! run on until the server looks at their connections, up to a quarter of a second (`CONNECTION_CHECK_INTERVAL`).

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use belvedere_web::fair_share::Tenant;

/// A statement that takes longer is a scan: fifty times what a read by an index takes.
const CHEAP: Duration = Duration::from_millis(5);
/// Time limit of a statement that counts as cheap: a busy machine may double its time.
pub(super) const CHEAP_TIME_LIMIT: Duration = Duration::from_millis(10);
/// Successive cheap runs after which a statement counts as cheap, at first.
const RUNS: u32 = 3;
/// The largest number of such runs.
const MAX_RUNS: u32 = 1 << 10;
/// Time for which a tenant's statements are scans after one exceeded its limit; doubled each time up to the longest.
const BAR: Duration = Duration::from_secs(1);
const MAX_BAR: Duration = Duration::from_mins(1);
/// After this time without another one, the next bar is short again.
const FORGIVEN: Duration = Duration::from_mins(10);
/// Statements that are remembered of a tenant. When they are more, which only generated texts are, all of them are measured again.
const MAX_STATEMENTS: usize = 64;
/// Tenants whose statements are remembered, likewise.
const MAX_TENANTS: usize = 1_024;

#[derive(Debug, Default)]
pub(in crate::store) struct Costs(Mutex<HashMap<Tenant, Known>>);

/// The costs of a tenant's statements.
#[derive(Debug, Default)]
struct Known {
    /// By the hash of the text. A tenant can only confuse its own statements.
    statements: HashMap<u64, Measured>,
    bar: Option<Bar>,
}

#[derive(Clone, Copy, Debug)]
struct Bar {
    since: Instant,
    time: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    /// Successive cheap runs.
    runs: u32,
    /// The number of them after which the statement counts as cheap.
    needed: u32,
}

fn hash_of(sql: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    sql.hash(&mut hasher);
    hasher.finish()
}

impl Costs {
    /// Whether a statement is expected to be cheap.
    pub(super) fn is_cheap(&self, tenant: &Tenant, sql: &str, now: Instant) -> bool {
        let known = self.lock();
        let Some(known) = known.get(tenant) else { return false };
        let is_barred = known.bar.is_some_and(|bar| now < bar.since + bar.time);
        let measured = known.statements.get(&hash_of(sql));
        !is_barred && measured.is_some_and(|measured| measured.runs >= measured.needed)
    }

    /// Records a run of a statement that ended.
    pub(super) fn note(&self, tenant: &Tenant, sql: &str, took: Duration) {
        let mut known = self.lock();
        let measured = known_of(&mut known, tenant).measured(sql);
        measured.runs = if took <= CHEAP { measured.runs.saturating_add(1) } else { 0 };
    }

    /// Records that a statement that counted as cheap exceeded [`CHEAP_TIME_LIMIT`].
    pub(super) fn note_overrun(&self, tenant: &Tenant, sql: &str, now: Instant) {
        let mut known = self.lock();
        let known = known_of(&mut known, tenant);
        let time = match known.bar {
            // Several may run at the same time, and all of them are stopped.
            Some(bar) if now < bar.since + bar.time => bar.time,
            Some(bar) if now < bar.since + FORGIVEN => (bar.time * 2).min(MAX_BAR),
            _ => BAR,
        };
        known.bar = Some(Bar { since: now, time });
        let measured = known.measured(sql);
        if measured.runs > 0 {
            *measured = Measured { runs: 0, needed: (measured.needed * 2).min(MAX_RUNS) };
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Tenant, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn known_of<'a>(known: &'a mut HashMap<Tenant, Known>, tenant: &Tenant) -> &'a mut Known {
    if known.len() >= MAX_TENANTS && !known.contains_key(tenant) {
        known.clear();
    }
    known.entry(tenant.clone()).or_default()
}

impl Known {
    fn measured(&mut self, sql: &str) -> &mut Measured {
        let hash = hash_of(sql);
        if self.statements.len() >= MAX_STATEMENTS && !self.statements.contains_key(&hash) {
            self.statements.clear();
        }
        self.statements.entry(hash).or_insert(Measured { runs: 0, needed: RUNS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQL: &str = "SELECT 1";

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_statement_that_was_cheap_three_times_counts_as_cheap() {
        let (costs, tenant, now) = (Costs::default(), Tenant::client("a"), Instant::now());
        for _ in 0..RUNS {
            assert!(!costs.is_cheap(&tenant, SQL, now));
            costs.note(&tenant, SQL, CHEAP);
        }
        assert!(costs.is_cheap(&tenant, SQL, now));
        assert!(!costs.is_cheap(&Tenant::client("b"), SQL, now));
        assert!(!costs.is_cheap(&tenant, "SELECT 2", now));
        costs.note(&tenant, SQL, CHEAP * 2);
        assert!(!costs.is_cheap(&tenant, SQL, now));
    }

    #[test]
    fn an_overrun_costs_more_each_time() {
        let (costs, tenant, start) = (Costs::default(), Tenant::client("a"), Instant::now());
        let runs_until_cheap = |now| {
            let mut runs = 0;
            while !costs.is_cheap(&tenant, SQL, now) {
                costs.note(&tenant, SQL, CHEAP);
                runs += 1;
            }
            runs
        };
        let (mut now, mut last) = (start, start);
        for expected in [3, 6, 12, 24] {
            assert_eq!(runs_until_cheap(now), expected);
            costs.note_overrun(&tenant, SQL, now);
            // A second run that was stopped at the same time.
            costs.note_overrun(&tenant, SQL, now);
            (last, now) = (now, after(now, 100));
        }
        // Bars of 1, 2, 4 and 8 seconds, of all statements.
        for _ in 0..RUNS {
            costs.note(&tenant, "SELECT 2", CHEAP);
        }
        assert!(!costs.is_cheap(&tenant, "SELECT 2", after(last, 7)));
        assert!(costs.is_cheap(&tenant, "SELECT 2", after(last, 8)));
        costs.note_overrun(&tenant, SQL, after(last, 8) + FORGIVEN);
        assert!(costs.is_cheap(&tenant, "SELECT 2", after(last, 9) + FORGIVEN));
    }

    #[test]
    fn few_statements_and_tenants_are_remembered() {
        let costs = Costs::default();
        for n in 0..3 * MAX_STATEMENTS {
            costs.note(&Tenant::client("a"), &format!("SELECT {n}"), CHEAP);
        }
        assert!(costs.lock()[&Tenant::client("a")].statements.len() <= MAX_STATEMENTS);
        for n in 0..2 * MAX_TENANTS {
            costs.note(&Tenant::client(format!("{n}")), SQL, CHEAP);
        }
        assert!(costs.lock().len() <= MAX_TENANTS);
    }
}
