//! `belvedere plugin check`: checks a plugin as a server does when it is installed, and prints what it asks for.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;

use super::super::{FAILED, print_error, print_line};
use crate::app::net_client;
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_instance::config::Config;
use belvedere_instance::events::EventLog;
use belvedere_instance::keys::attestation::Attestation;
use belvedere_protocol::crypto::{Algorithm, PrivateKey};
use belvedere_scripting::plugins::calls::Calls;
use belvedere_scripting::plugins::check::{Examined, examine};
use belvedere_scripting::plugins::manifest::Risk;
use belvedere_scripting::plugins::{
    CompileLimits, Compiler, EngineConfig, PluginEngine, PluginServices, folder,
};
use belvedere_storage::store::Db;

pub(super) async fn run(folder: &Path, config: &Config) -> anyhow::Result<ExitCode> {
    let package = match folder::read_one(folder).package {
        Ok(package) => package,
        Err(offence) => return Ok(refused(folder, &offence)),
    };
    let cache = config.server.data_dir.join("cache");
    std::fs::create_dir_all(&cache).with_context(|| format!("{} can't be created", cache.display()))?;
    let scratch = Scratch(cache.join(format!("plugin-check-{}.db", std::process::id())));
    let compiler = Compiler::this_program(CompileLimits::beside(config.memory.limit));
    let engine = PluginEngine::open(EngineConfig::new(cache, compiler))?;
    let db = Db::open(&format!("sqlite://{}", scratch.0.display()), 1).await?;
    let calls = Calls::new(engine.clone(), services(&db, config)?);
    let examined = examine(&engine, &calls, package).await;
    db.close().await;
    match examined {
        Ok(examined) => {
            report(&examined);
            Ok(ExitCode::SUCCESS)
        }
        Err(offence) => Ok(refused(folder, &offence)),
    }
}

fn refused(folder: &Path, offence: &dyn std::fmt::Display) -> ExitCode {
    print_error(&format_args!("{}: {offence}", folder.display()));
    ExitCode::from(FAILED)
}

/// A database that is needed to call a module, although a module that is described may use nothing of it.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            let mut path = self.0.clone().into_os_string();
            path.push(end);
            let _ = std::fs::remove_file(path);
        }
    }
}

fn services(db: &Db, config: &Config) -> anyhow::Result<PluginServices> {
    let (clock, random) = (Clock::system(), Random::system());
    let net = net_client(config, &config.server.identity(config.server.port), config.server.port)?;
    let (events, _) = EventLog::start(db.clone(), clock.clone(), random.clone());
    let key = PrivateKey::generate(Algorithm::Es256k, &random);
    let attestation = Attestation::new(key, "did:web:localhost#attestation".to_owned(), String::new());
    Ok(PluginServices::new(db.clone(), net, clock, random, events, Arc::new(attestation)))
}

fn report(examined: &Examined) {
    let (package, manifest) = (&examined.package, &examined.package.manifest.manifest);
    print_line(&format_args!("{} {}: {}", manifest.id, manifest.version, manifest.name));
    print_line(&format_args!(
        "module: {} KiB, SHA-256 {}",
        package.module.len().div_ceil(1024),
        package.module_sha256
    ));
    if examined.requested.is_empty() {
        print_line(&"asks for nothing");
    } else {
        print_line(&"asks for:");
    }
    for permission in &examined.requested {
        let risk = match permission.risk() {
            Risk::Low => "low risk",
            Risk::Medium => "medium risk",
            Risk::High => "high risk",
        };
        print_line(&format_args!("  {} ({risk}: {permission})", permission.sentence()));
    }
    for secret in &manifest.required_secrets {
        print_line(&format_args!("needs the secret {}: {}", secret.key, secret.name));
    }
    for function in &examined.functions {
        print_line(&format_args!("offers {}({})", function.name, function.params.join(", ")));
    }
}
