//! Counts the calls of API clients by method, in memory: those of the last 24 hours that this host answered. The history
//! has the calls of each client and of each method, but not of both.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use belvedere_base::clock::Timestamp;

/// Hours that are counted, with the present one.
pub const HOURS: usize = 24;

/// Pairs of a client and a method that are counted separately in an hour, some megabytes in all. Calls of others are counted as
/// [`OTHER`] of their clients.
const MAX_PAIRS: usize = 2_000;

/// Clients that are counted in an hour. Calls of others are not counted.
const MAX_CLIENTS: usize = 2_000;

/// The name of the methods that are not counted separately.
const OTHER: &str = "(other)";

const HOUR_SECONDS: i64 = 3_600;

/// Calls of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Calls {
    /// Those that were admitted.
    pub calls: u64,
    /// Those that were refused because there were too many (429).
    pub rate_limited: u64,
}

/// The counts of this host.
#[derive(Debug, Default)]
pub struct ClientUsage(Mutex<VecDeque<Hour>>);

#[derive(Debug)]
struct Hour {
    /// Hours since 1970.
    number: i64,
    pairs: usize,
    by_client: HashMap<String, HashMap<String, Calls>>,
}

impl ClientUsage {
    /// Counts a call. `method` is a name that callers can't invent.
    pub(super) fn count(&self, client: &str, method: &str, is_rate_limited: bool, now: Timestamp) {
        let (calls, rate_limited) = if is_rate_limited { (0, 1) } else { (1, 0) };
        self.with(now, |hours| {
            if let Some(hour) = hours.back_mut() {
                hour.add(client, method, Calls { calls, rate_limited });
            }
        });
    }

    /// The calls of a client by method, the most first.
    pub fn by_method(&self, client: &str, now: Timestamp) -> Vec<(String, Calls)> {
        let mut sums = HashMap::<String, Calls>::new();
        self.with(now, |hours| {
            for (method, calls) in hours.iter().filter_map(|hour| hour.by_client.get(client)).flatten() {
                sums.entry(method.clone()).or_default().add(*calls);
            }
        });
        let mut methods: Vec<_> = sums.into_iter().collect();
        methods.sort_by(|(a, x), (b, y)| (y.total(), a).cmp(&(x.total(), b)));
        methods
    }

    /// The calls of a client.
    pub fn total(&self, client: &str, now: Timestamp) -> Calls {
        let mut total = Calls::default();
        self.with(now, |hours| {
            let methods = hours.iter().filter_map(|hour| hour.by_client.get(client));
            methods.flat_map(HashMap::values).for_each(|calls| total.add(*calls));
        });
        total
    }

    /// Runs with the hours that count, the present one last.
    fn with<T>(&self, now: Timestamp, run: impl FnOnce(&mut VecDeque<Hour>) -> T) -> T {
        let number = now.as_seconds().div_euclid(HOUR_SECONDS);
        // Poisoning is ignored: a count that is missing is no harm.
        let mut hours = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hours.back().is_none_or(|hour| hour.number < number) {
            hours.push_back(Hour { number, pairs: 0, by_client: HashMap::new() });
        }
        while hours.front().is_some_and(|hour| hour.number <= number - HOURS as i64) {
            hours.pop_front();
        }
        run(&mut hours)
    }
}

impl Hour {
    fn add(&mut self, client: &str, method: &str, calls: Calls) {
        let clients = self.by_client.len();
        match self.by_client.get_mut(client) {
            Some(methods) => {
                if let Some(known) = methods.get_mut(method) {
                    known.add(calls);
                    return;
                }
            }
            None if clients >= MAX_CLIENTS => return,
            None => {}
        }
        let is_separate = self.pairs < MAX_PAIRS;
        self.pairs += usize::from(is_separate);
        let methods = self.by_client.entry(client.to_owned()).or_default();
        methods.entry(if is_separate { method } else { OTHER }.to_owned()).or_default().add(calls);
    }
}

impl Calls {
    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.rate_limited += other.rate_limited;
    }

    fn total(self) -> u64 {
        self.calls + self.rate_limited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour(n: i64) -> Timestamp {
        Timestamp(0).plus_seconds(n * HOUR_SECONDS)
    }

    #[test]
    fn calls_of_a_day_are_counted_by_client_and_method() {
        let usage = ClientUsage::default();
        usage.count("a", "old", false, hour(0));
        usage.count("a", "seldom", false, hour(1));
        for limited in [false, false, true] {
            usage.count("a", "often", limited, hour(1));
        }
        usage.count("b", "often", false, hour(24));
        let calls = |calls, rate_limited| Calls { calls, rate_limited };
        let expected = [("often".to_owned(), calls(2, 1)), ("seldom".to_owned(), calls(1, 0))];
        assert_eq!(usage.by_method("a", hour(24)), expected, "the first hour is over");
        assert_eq!((usage.total("a", hour(24)), usage.total("b", hour(24))), (calls(3, 1), calls(1, 0)));
        assert_eq!(usage.total("a", hour(25)), Calls::default());
        // A clock that was set back counts on.
        usage.count("b", "often", false, hour(3));
        assert_eq!(usage.total("b", hour(25)), calls(2, 0));
    }

    #[test]
    fn the_counts_of_an_hour_are_bounded() {
        let usage = ClientUsage::default();
        for n in 0..MAX_PAIRS + 5 {
            usage.count("a", &format!("method {n}"), false, hour(0));
        }
        let methods = usage.by_method("a", hour(0));
        assert_eq!((methods.len(), methods[0].0.as_str(), methods[0].1.calls), (MAX_PAIRS + 1, OTHER, 5));
        for n in 0..MAX_CLIENTS + 5 {
            usage.count(&format!("client {n}"), "method", false, hour(0));
        }
        let last = format!("client {}", MAX_CLIENTS + 4);
        assert_eq!((usage.total("client 0", hour(0)).calls, usage.total(&last, hour(0)).calls), (1, 0));
    }
}
