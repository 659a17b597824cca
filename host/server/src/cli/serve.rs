//! `belvedere serve`: starts the server, serves until a signal arrives, and shuts down.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use metrics_exporter_prometheus::PrometheusBuilder;
use sd_notify::NotifyState;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::instance_file::{DatabaseLocation, InstanceFile};
use super::{print_line, status};
use crate::api::routes;
use crate::app::App;
use crate::methods::InProcess;
use belvedere_base::lifecycle::{DRAIN_TIME, Lifecycle};
use belvedere_instance::config::{Config, PLC};
use belvedere_storage::store::users;
use belvedere_web::http::{Cors, Http, server};

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
    if let Some(shortage) = config.memory.shortage() {
        tracing::warn!("this machine or container has too little memory: {shortage}");
    }

    let in_process = Arc::new(InProcess::default());
    // The future is large: it has the configuration, and the state of every part while it is built.
    let app = Box::pin(App::start(config, port, lifecycle.clone(), in_process.clone())).await?;
    in_process.open(&app);
    app.start_workers();
    InstanceFile::write(&app);
    let serving = start_http(&app, listener)?;
    notify(NotifyState::Ready);
    print_greeting(&app, port).await;

    lifecycle.drain.cancelled().await;
    notify(NotifyState::Stopping);
    Ok(end(&app, serving).await)
}

/// Serves the application's HTTP API until its life ends.
///
/// # Errors
/// When two routes conflict.
pub(super) fn start_http(app: &Arc<App>, listener: TcpListener) -> anyhow::Result<JoinHandle<()>> {
    let http = Http::new(
        routes::router(app)?,
        Cors::new({
            let origins = app.access.origins.clone();
            move |origin| origins.contains(origin)
        }),
        &app.random,
        app.tasks.clone(),
    );
    let proxies = app.config.server.trusted_proxies.clone();
    let shares = app.config.memory.shares(&app.config.database);
    let http = http.with_response_memory(shares.responses);
    let http = Arc::new(http.with_client_address(move |peer, headers| proxies.client(peer, headers)));
    let Lifecycle { drain, stop } = app.lifecycle.clone();
    Ok(tokio::spawn(server::serve(listener, http, drain, stop)))
}

/// Ends an application that drains, and returns the status of the process.
pub(super) async fn end(app: &App, serving: JoinHandle<()>) -> ExitCode {
    let lifecycle = &app.lifecycle;
    let drained = lifecycle.finish(DRAIN_TIME, async { drop(serving.await) }).await;
    if !drained {
        lifecycle.stop.cancel();
    }
    app.tasks.close();
    let finished = lifecycle.finish(FINISH_TIME, finish(app)).await;
    tracing::info!(drained, finished, "stopped");
    status(drained && finished)
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
    let command = admin_command(&app.config);
    print_line(&format_args!(
        "It has no users yet. Open {public}/dashboard/ and log in: the first account becomes the super user.
Without a browser, in another terminal:
  KEY=$({command} create-key --did YOUR_DID)
  curl -H \"Authorization: Bearer $KEY\" {local}/admin/lexicons -d '{{\"lexicon_json\": {{ … }}}}'
  curl -H \"Authorization: Bearer $KEY\" {local}/admin/stats"
    ));
}

/// The start of a shell command for this server's database and PLC directory, which works in any folder. A password is not printed, because
/// standard output may be kept in a log.
fn admin_command(config: &Config) -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| "belvedere".into());
    let program = quoted(&program.display().to_string());
    let url = config.database.with_password(Some("PASSWORD")).or_else(|| {
        let location = DatabaseLocation::of(&config.database).ok()?;
        Some(location.url)
    });
    let url = url.unwrap_or_else(|| config.database.redacted_url());
    let plc = &config.indexing.plc_url;
    let plc = if plc == PLC.default { String::new() } else { format!("PLC_URL={} ", quoted(plc)) };
    format!("DATABASE_URL={} {plc}{program} admin", quoted(&url))
}

/// A word of a shell command.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@=%+,".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_names_the_database_without_its_password() {
        let command = |url: Option<&str>| {
            let mut args = belvedere_instance::config::Args::default();
            args.database.url = url.map(str::to_owned);
            admin_command(&args.check().unwrap())
        };
        let here = std::env::current_dir().unwrap();
        let sqlite = command(None);
        assert!(sqlite.starts_with("DATABASE_URL=sqlite:///") && sqlite.ends_with(" admin"), "{sqlite}");
        assert!(sqlite.contains(&format!("{}/data/belvedere.db ", here.display())), "{sqlite}");
        let postgres = command(Some("postgres://me:hunter2@db/x"));
        assert!(postgres.starts_with("DATABASE_URL=postgres://me:PASSWORD@db/x /"), "{postgres}");
        let option = command(Some("postgres://db/x?sslmode=disable"));
        assert!(option.starts_with("DATABASE_URL='postgres://db/x?sslmode=disable' "), "{option}");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
