//! The metrics of a route: request counters and latencies, registered once at start.

use std::time::Duration;

use http::StatusCode;
use metrics::{Counter, Histogram};

/// Handles of one route's metrics. Recording does nothing when no metrics are served.
pub(super) struct RouteMetrics {
    /// By the status code's first digit.
    by_class: [Counter; 5],
    duration: Histogram,
}

impl RouteMetrics {
    pub(super) fn new(method: &str, route: &'static str) -> Self {
        let method = method.to_owned();
        let by_class = ["1xx", "2xx", "3xx", "4xx", "5xx"].map(|class| {
            metrics::counter!(
                "belvedere_http_requests_total", "method" => method.clone(), "route" => route, "status" => class
            )
        });
        let duration = metrics::histogram!(
            "belvedere_http_request_duration_seconds", "method" => method, "route" => route
        );
        Self { by_class, duration }
    }

    pub(super) fn record(&self, status: StatusCode, elapsed: Duration) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        self.by_class[class].increment(1);
        self.duration.record(elapsed);
    }
}

impl std::fmt::Debug for RouteMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouteMetrics").finish_non_exhaustive()
    }
}
