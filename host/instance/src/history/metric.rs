//! The measures, and the metrics that are made of them.

use belvedere_storage::store::metric_history::StepRow;

/// A measured quantity. Each has its own rows, one per label and step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// Events that the stream delivered.
    StreamEvents,
    /// Seconds by which the index was behind the stream, now and then.
    StreamLag,
    /// XRPC calls by method, with their milliseconds.
    Requests,
    /// Those that failed in this server.
    RequestErrors,
    /// XRPC calls by API client.
    ClientRequests,
    /// XRPC calls by app and API client: their names, with a space between.
    AppRequests,
    /// Runs by script, with the milliseconds in which they computed.
    ScriptRuns,
    ScriptErrors,
    ScriptInstructions,
    /// XRPC calls that were refused because a bucket was empty (429), by API client.
    ClientRateLimited,
    /// Creations and changes of records that the writer committed, by collection.
    RecordsWritten,
    RecordsDeleted,
}

impl Measure {
    pub const COUNT: usize = 12;

    /// The name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StreamEvents => "stream_events",
            Self::StreamLag => "stream_lag",
            Self::Requests => "requests",
            Self::RequestErrors => "request_errors",
            Self::ClientRequests => "client_requests",
            Self::AppRequests => "app_requests",
            Self::ScriptRuns => "script_runs",
            Self::ScriptErrors => "script_errors",
            Self::ScriptInstructions => "script_instructions",
            Self::ClientRateLimited => "client_rate_limited",
            Self::RecordsWritten => "records_written",
            Self::RecordsDeleted => "records_deleted",
        }
    }
}

/// Combines the values of several labels or steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Count,
    Mean,
    Max,
    /// The value that this percentage of the measurements does not exceed.
    Percentile(u8),
}

/// A metric that has a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub unit: &'static str,
    /// The kind of label of its series: `method`, `script`, `client` or `collection`; `None` for a single series.
    pub by: Option<&'static str>,
    pub description: &'static str,
    pub(super) measure: Measure,
    value: Value,
}

const fn metric(
    name: &'static str,
    unit: &'static str,
    by: Option<&'static str>,
    (measure, value): (Measure, Value),
    description: &'static str,
) -> Metric {
    Metric { name, unit, by, description, measure, value }
}

use Measure as M;
use Value::{Count, Max, Mean, Percentile};

impl Metric {
    #[rustfmt::skip] // a table
    pub const ALL: [Self; 16] = [
        metric("stream_events", "events", None, (M::StreamEvents, Count), "Events that the stream delivered."),
        metric("stream_lag", "seconds", None, (M::StreamLag, Max), "How far the index was behind the stream, at most."),
        metric("requests", "requests", Some("method"), (M::Requests, Count), "XRPC calls."),
        metric("request_errors", "requests", Some("method"), (M::RequestErrors, Count), "XRPC calls that this server failed to answer (5xx)."),
        metric("request_ms", "milliseconds", Some("method"), (M::Requests, Mean), "How long XRPC calls took on average."),
        metric("request_p50_ms", "milliseconds", Some("method"), (M::Requests, Percentile(50)), "What half of the XRPC calls did not exceed."),
        metric("request_p99_ms", "milliseconds", Some("method"), (M::Requests, Percentile(99)), "What 99 of 100 XRPC calls did not exceed."),
        metric("request_max_ms", "milliseconds", Some("method"), (M::Requests, Max), "How long the slowest XRPC call took."),
        metric("client_requests", "requests", Some("client"), (M::ClientRequests, Count), "XRPC calls of each application."),
        metric("client_rate_limited", "requests", Some("client"), (M::ClientRateLimited, Count), "XRPC calls of each application that were refused because its budget was used up (429)."),
        metric("records_written", "records", Some("collection"), (M::RecordsWritten, Count), "Committed creations and changes of records, from the stream, backfills and own writes. One that the index has already counts too, such as a replay."),
        metric("records_deleted", "records", Some("collection"), (M::RecordsDeleted, Count), "Committed deletions of records, counted in the same way."),
        metric("script_runs", "runs", Some("script"), (M::ScriptRuns, Count), "Runs of scripts."),
        metric("script_errors", "runs", Some("script"), (M::ScriptErrors, Count), "Runs of scripts that failed."),
        metric("script_instructions", "instructions", Some("script"), (M::ScriptInstructions, Count), "What scripts computed."),
        metric("script_ms", "milliseconds", Some("script"), (M::ScriptRuns, Mean), "How long runs of scripts computed on average."),
    ];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name == name)
    }

    /// Whether the values of steps and series can be added.
    pub(super) fn is_sum(self) -> bool {
        self.value == Count
    }

    /// Its percentage, if it is a percentile.
    pub(super) fn percent(self) -> Option<u8> {
        match self.value {
            Percentile(percent) => Some(percent),
            Count | Mean | Max => None,
        }
    }

    /// The value of a step. Those of a percentile are not in such a row: the maximum bounds them.
    pub(super) fn value_of(self, row: &StepRow) -> f64 {
        match self.value {
            Count => row.count as f64,
            Mean => row.total / row.count.max(1) as f64,
            Max | Percentile(_) => row.max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for metric in Metric::ALL {
            assert_eq!(Metric::ALL.iter().filter(|other| other.name == metric.name).count(), 1);
            assert_eq!(Metric::named(metric.name), Some(metric));
        }
        assert_eq!(Metric::named("nothing"), None);
    }

    #[test]
    fn a_step_has_a_count_a_mean_and_a_maximum() {
        let row = StepRow {
            at: belvedere_base::clock::Timestamp(0),
            label: String::new(),
            count: 4,
            total: 10.0,
            max: 7.0,
        };
        let of = |name| Metric::named(name).map(|metric| metric.value_of(&row));
        assert_eq!((of("requests"), of("request_ms")), (Some(4.0), Some(2.5)));
        assert_eq!(of("request_max_ms"), Some(7.0));
    }
}
