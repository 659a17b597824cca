//! `belvedere dev`: the server for the app in a folder, without a network. It applies the folder when it changes, and stand-ins answer
//! in place of PLC directory, PDS, relay and stream (docs/adr/0161).

mod keys;
mod network;
mod plugins;
mod project;
mod seed;
mod terminal;
mod watch;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use clap::Args;
use tempfile::TempDir;

use super::remote::Server;
use super::{print_line, serve};
use crate::app::{App, Development, engine_config};
use crate::methods::InProcess;
use belvedere_base::clock::Clock;
use belvedere_base::lifecycle::Lifecycle;
use belvedere_instance::config::{self, Config};
use belvedere_scripting::scripts::Engine;
use belvedere_web::http::server;

use network::{Account, Network};
use plugins::PluginFolder;
use project::{Parts, Project};
use terminal::Terminal;
use watch::Watch;

/// The log filter: requests, and warnings except those of failed scripts, which are printed with their stack instead.
pub(super) const LOG_FILTER: &str = "warn,belvedere::methods::scripted=error,access=info";

/// Calls of a page under development are not limited.
const TOKENS: &str = "1000000";

#[derive(Args, Debug)]
pub(super) struct Options {
    /// A folder with lexicons/, scripts/ (or the folders of the triggers themselves) and seed/
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Keep the database in this folder; without it, everything is deleted at the end
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The port of the stand-in network [default: the one after the server's]
    #[arg(long, value_name = "PORT")]
    network_port: Option<u16>,
}

impl Options {
    fn network_address(&self, host: IpAddr, port: u16, is_free: bool) -> SocketAddr {
        let default = || if is_free { 0 } else { port.wrapping_add(1) };
        (host, self.network_port.unwrap_or_else(default)).into()
    }
}

pub(super) async fn run(options: &Options, config: &Config) -> anyhow::Result<ExitCode> {
    let lifecycle = Lifecycle::default();
    lifecycle.handle_signals().context("signals can't be handled")?;
    let folder = options.folder.canonicalize();
    let folder = folder.with_context(|| format!("{} is not a folder", options.folder.display()))?;
    if !folder.is_dir() {
        bail!("{} is not a folder", folder.display());
    }
    let address = config.server.address();
    let taken =
        |address: SocketAddr| format!("can't listen on {address}: --port and --network-port choose others");
    let listener = server::bind(address).with_context(|| taken(address))?;
    let port = listener.local_addr()?.port();
    let host = named_host(address.ip());
    let network_address = options.network_address(host, port, address.port() == 0);
    let network_listener = server::bind(network_address).with_context(|| taken(network_address))?;
    let origin = format!("http://{}", network_listener.local_addr()?);

    let network = Arc::new(Network::new(origin, Clock::system()));
    let accounts = Project::seed(&folder).accounts;
    network.put_accounts(&accounts);
    network::serve(network_listener, &network, &lifecycle.drain)?;

    let data = Data::open(options.data.as_deref())?;
    let url = format!("http://{}", SocketAddr::new(host, port));
    let own = own_config(config, data.path(), (port, &url), network.origin())?;
    let terminal = Arc::new(Terminal::default());
    let engine = Engine::open(engine_config(config)).await?;
    let parts = Development { network: network.clone(), observer: terminal.clone(), engine: engine.clone() };
    let in_process = Arc::new(InProcess::default());
    let app = Box::pin(App::develop(own.clone(), port, lifecycle.clone(), in_process.clone(), parts)).await?;
    in_process.open(&app);
    app.start_workers();
    let serving = serve::start_http(&app, listener)?;

    let admin_key = keys::admin_key(&app, &accounts[0].did).await?;
    let server = Server::at(&url, admin_key.clone());
    let client_key = keys::prepare(&server, &accounts[1..], &own).await?;
    let plugins = PluginFolder { app: Arc::clone(&app), actor: accounts[0].did.clone() };
    let project = Project { folder: folder.clone(), server, plugins, config: own, engine, network, terminal };
    let mut watch = Watch::begin(folder);
    project.apply(Parts::ALL).await;
    greet(&app, &url, project.network.origin(), (&client_key, &admin_key), &accounts);

    let reloading = async {
        loop {
            let changed = watch.next().await;
            let started = Instant::now();
            let parts = Parts::of(&changed);
            if parts != Parts::default() {
                let applied = if project.apply(parts).await { "reloaded" } else { "not all was reloaded" };
                print_line(&format_args!("{applied}, in {} ms", started.elapsed().as_millis()));
            }
        }
    };
    Box::pin(lifecycle.drain.run_until_cancelled(reloading)).await;
    lifecycle.drain.cancelled().await;
    Ok(serve::end(&app, serving).await)
}

/// The folder of the database.
enum Data {
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Data {
    fn open(kept: Option<&Path>) -> anyhow::Result<Self> {
        let Some(dir) = kept else {
            let dir = tempfile::Builder::new().prefix("belvedere-dev-").tempdir();
            return Ok(Self::Temporary(dir.context("a folder for the database can't be created")?));
        };
        std::fs::create_dir_all(dir).with_context(|| format!("{} can't be created", dir.display()))?;
        Ok(Self::Kept(dir.to_owned()))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(dir) => dir.path(),
            Self::Kept(dir) => dir,
        }
    }
}

/// The address by which links and logins name this machine, and on which the network listens. Other machines reach it only when
/// `HOST` is an address of theirs; every interface has no such address.
fn named_host(host: IpAddr) -> IpAddr {
    if host.is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { host }
}

/// The configuration of the server: nothing of the environment but its address, so that no setting of another server is used.
fn own_config(
    config: &Config,
    data: &Path,
    (port, url): (u16, &str),
    network: &str,
) -> anyhow::Result<Config> {
    let mut args = config::Args::default();
    args.server.host = Some(config.server.host.to_string());
    args.server.port = Some(port.to_string());
    args.server.public_url = Some(url.to_owned());
    // The PDS of the accounts has that address; only the stand-in answers for it.
    args.outbound.allow = Some(named_host(config.server.host).to_string());
    args.server.data_dir = Some(data.display().to_string());
    args.rate_limit.capacity = Some(TOKENS.to_owned());
    args.indexing.plc_url = Some(network.to_owned());
    args.indexing.relay_url = Some(network.to_owned());
    args.indexing.jetstream_url = Some(network.replacen("http:", "ws:", 1));
    args.check().map_err(|problems| anyhow::anyhow!("{problems}"))
}

/// Prints where the server is, and the first steps.
fn greet(app: &App, url: &str, network: &str, (client_key, admin_key): (&str, &str), accounts: &[Account]) {
    let handles: Vec<&str> = accounts.iter().map(|account| account.handle.as_str()).collect();
    print_line(&format_args!(
        "
Belvedere runs at {url}/, without a network.
  dashboard   {url}/dashboard/
  client key  {client_key}
  admin key   {admin_key}
  network     {network}/ (PLC directory, PDS of all accounts)
  accounts    {} (no passwords)
  service     {}
Call a method:
  curl -H 'X-Client-Key: {client_key}' {url}/xrpc/NSID
It reloads what you edit. Ctrl-C ends it.",
        handles.join(", "),
        app.identity.did,
    ));
    if !app.identity.is_loopback {
        print_line(
            &"Everyone who reaches this address can log in as each of the accounts, also as the super user.",
        );
    }
}
