//! `belvedere serve`: starts the server, serves until a signal arrives, and shuts down.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use metrics_exporter_prometheus::PrometheusBuilder;
use sd_notify::NotifyState;

use super::{FAILED, print_line};
use crate::api::routes;
use crate::app::App;
use crate::config::Config;
use crate::http::{Cors, Http, server};
use crate::lifecycle::{DRAIN_TIME, Lifecycle};
use crate::methods::InProcess;
use crate::store::users;

/// Time limit of the steps after the last request: the stream's last commit, the event log, closing the database.
const FINISH_TIME: Duration = Duration::from_secs(12);

/// Histogram buckets in seconds, from a constant response to a script at its time limit.
const DURATION_BUCKETS: &[f64] =
    &[0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];

pub(super) async fn run(config: Config) -> anyhow::Result<ExitCode> {
    let lifecycle = Lifecycle::default();
    lifecycle.handle_signals().context("signals can't be handled")?;
    // First of all, so that clients that connect during the start wait instead of being refused.
    let address = config.server.address();
    let listener = server::bind(address).with_context(|| {
        format!(
            "can't listen on {address}; is another instance running? HOST and PORT choose another address"
        )
    })?;
    let port = listener.local_addr()?.port();
    start_metrics(&config)?;
    if let Some(advice) = config.server.proxy_advice() {
        tracing::warn!("{advice}");
    }

    let in_process = Arc::new(InProcess::default());
    let app = App::start(config, port, lifecycle.clone(), in_process.clone()).await?;
    in_process.open(&app);
    app.start_workers();
    let http = Http::new(
        routes::router(&app)?,
        Cors::new({
            let origins = app.access.origins.clone();
            move |origin| origins.contains(origin)
        }),
        &app.random,
        app.tasks.clone(),
    );
    let proxies = app.config.server.trusted_proxies.clone();
    let http = Arc::new(http.with_client_address(move |peer, headers| proxies.client(peer, headers)));
    let serving =
        tokio::spawn(server::serve(listener, http, lifecycle.drain.clone(), lifecycle.stop.clone()));
    notify(NotifyState::Ready);
    print_greeting(&app, port).await;

    lifecycle.drain.cancelled().await;
    notify(NotifyState::Stopping);
    let drained = lifecycle.finish(DRAIN_TIME, async { drop(serving.await) }).await;
    if !drained {
        lifecycle.stop.cancel();
    }
    app.tasks.close();
    let finished = lifecycle.finish(FINISH_TIME, finish(&app)).await;
    tracing::info!(drained, finished, "stopped");
    Ok(if drained && finished { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Tells systemd (`Type=notify`) the state of the server. Without `NOTIFY_SOCKET` it does nothing.
fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "systemd can't be notified");
    }
}

/// Finishes background work, in order of dependency.
async fn finish(app: &App) {
    app.stream.finish().await;
    app.tasks.wait().await;
    let lost = app.events.flush().await;
    if lost > 0 {
        tracing::error!(lost, "the database is unavailable: events are lost");
    }
    app.db.close().await;
}

/// Serves `/metrics` on a listener of its own, so that the metrics are not on the public port.
fn start_metrics(config: &Config) -> anyhow::Result<()> {
    let Some(address) = config.observe.metrics_addr else { return Ok(()) };
    PrometheusBuilder::new()
        .with_http_listener(address)
        .set_buckets(DURATION_BUCKETS)
        .context("the histogram buckets are unusable")?
        .install()
        .with_context(|| format!("metrics can't be served on METRICS_ADDR {address}"))
}

/// Prints where the server listens, and on an instance without users the commands to begin with.
async fn print_greeting(app: &App, port: u16) {
    let local = format!("http://127.0.0.1:{port}");
    let public = &app.identity.origin;
    tracing::info!(address = %app.config.server.host, port, public, did = %app.identity.did, "listening");
    print_line(&format_args!("Belvedere {} listens on {public}", env!("CARGO_PKG_VERSION")));
    // Ignores a database error: requests will report it.
    if !users::list(&app.db).await.is_ok_and(|users| users.is_empty()) {
        return;
    }
    let program = std::env::args().next().unwrap_or_else(|| "belvedere".to_owned());
    print_line(&format_args!(
        "It has no users yet. Next, in another terminal:
  KEY=$({program} admin create-key --did YOUR_DID)
  curl -H \"Authorization: Bearer $KEY\" {local}/admin/lexicons -d '{{\"lexicon_json\": {{ … }}}}'
  curl -H \"Authorization: Bearer $KEY\" {local}/admin/stats"
    ));
}
