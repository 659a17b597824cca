//! Log lines of requests for `belvedere dev`: method, path, status and time of each call of a method.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The target of the access log.
const ACCESS: &str = "access";

/// The paths whose requests are printed: not those of the dashboard, and of the command itself.
const METHODS: &str = "/xrpc/";

/// Formats a request in few words, and everything else as usual.
pub(super) struct RequestLines(pub(super) Format);

/// The fields of a request.
#[derive(Debug, Default)]
struct Request {
    method: String,
    path: String,
    status: u64,
    micros: u64,
}

impl Visit for Request {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "method" => value.clone_into(&mut self.method),
            "path" => value.clone_into(&mut self.path),
            _ => {}
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "status" => self.status = value,
            "duration_us" => self.micros = value,
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, path, status, micros } = self;
        write!(f, "{method} {path} {status} {} ms", micros.div_ceil(1_000))
    }
}

impl<S, N> FormatEvent<S, N> for RequestLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if event.metadata().target() != ACCESS {
            return self.0.format_event(context, writer, event);
        }
        let mut request = Request::default();
        event.record(&mut request);
        if request.path.starts_with(METHODS) { writeln!(writer, "{request}") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_short_line() {
        let request =
            Request { method: "GET".to_owned(), path: "/xrpc/a.b.c".to_owned(), status: 200, micros: 2_100 };
        assert_eq!(request.to_string(), "GET /xrpc/a.b.c 200 3 ms");
    }
}
