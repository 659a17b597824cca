//! Settings of logs, metrics and the service manager's socket.

use std::net::SocketAddr;

use clap::Args;
use tracing_subscriber::EnvFilter;

use super::{Problems, parse};

/// Level info for this crate, and only warnings and errors of the libraries.
const DEFAULT_FILTER: &str =
    "info,sqlx=warn,hyper=warn,hickory_proto=warn,hickory_resolver=warn,wasmtime=warn";

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Logs and metrics")]
pub struct ObserveArgs {
    /// Filter of log lines, like `info,belvedere=debug,access=off` [default: info]
    #[arg(long = "log", env = "RUST_LOG", global = true, value_name = "FILTER")]
    pub log_filter: Option<String>,
    /// `text` for people or `json` for machines [default: text]
    #[arg(long, env = "LOG_FORMAT", global = true, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// IP:PORT for Prometheus to scrape /metrics [default: no metrics]
    #[arg(long, env = "METRICS_ADDR", global = true, value_name = "ADDRESS")]
    pub metrics_addr: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Debug)]
pub struct Observe {
    /// A valid filter in the syntax of `tracing`.
    pub log_filter: String,
    pub log_format: LogFormat,
    pub metrics_addr: Option<SocketAddr>,
}

impl ObserveArgs {
    pub(super) fn check(self, problems: &mut Problems) -> Observe {
        let mut log_filter = parse::text(self.log_filter).unwrap_or_else(|| DEFAULT_FILTER.to_owned());
        if let Err(error) = EnvFilter::builder().parse(&log_filter) {
            problems.add("RUST_LOG", format!("{log_filter:?} is not a log filter: {error}"));
            DEFAULT_FILTER.clone_into(&mut log_filter);
        }
        let log_format = match parse::text(self.log_format).as_deref() {
            None | Some("text") => LogFormat::Text,
            Some("json") => LogFormat::Json,
            Some(other) => {
                problems.add("LOG_FORMAT", format!("{other:?} is neither text nor json"));
                LogFormat::Text
            }
        };
        let metrics_addr = parse::text(self.metrics_addr).and_then(|text| {
            let address = text.parse().ok();
            if address.is_none() {
                problems.add("METRICS_ADDR", format!("{text:?} is not IP:PORT, as in 127.0.0.1:9464"));
            }
            address
        });
        Observe { log_filter, log_format, metrics_addr }
    }
}
