//! The version of a plugin that is in use after its row has changed.

use super::{Stage, built, engine, scope};
use crate::plugins::calls::{CallError, RunContext};
use crate::plugins::loading::{Loader, LoaderDeps};
use crate::plugins::secrets::PluginSecrets;
use crate::plugins::{PausedHere, PluginStatus, Plugins};
use belvedere_base::clock::Timestamp;
use belvedere_instance::config::Secret;
use belvedere_instance::core::Core;
use belvedere_instance::events::Event;
use belvedere_protocol::crypto::SealingKey;
use belvedere_protocol::crypto::sha256_hex;
use belvedere_storage::store::plugins::{self, NewPlugin, PluginRow, PluginSource, Replaces};

const HOST: &str = "network:request?host=localhost";

struct Setup {
    stage: Stage,
    loader: Loader,
    plugins: Plugins,
    paused: PausedHere,
}

impl Setup {
    async fn set() -> Self {
        let stage = Stage::set().await;
        let (plugins, paused) = (Plugins::default(), PausedHere::default());
        let none = std::collections::BTreeMap::<String, Secret<String>>::new();
        let loader = Loader::new(LoaderDeps {
            core: Core { events: stage.events.clone(), ..Core::testing(&stage.db, &stage.clock) },
            engine: engine().await,
            calls: stage.calls.clone(),
            plugins: plugins.clone(),
            paused: paused.clone(),
            secrets: PluginSecrets::new(
                stage.db.clone(),
                SealingKey::new([1; 32]),
                none,
                &std::collections::BTreeSet::new(),
            ),
            configured: std::collections::BTreeSet::new(),
            unrestricted: std::collections::BTreeSet::new(),
        });
        Self { stage, loader, plugins, paused }
    }

    /// Stores the hostile plugin with a change of its manifest, and these grants.
    async fn store(&self, version: &str, source: PluginSource, granted: &[&str]) -> PluginRow {
        let (module, manifest) = built("hostile");
        let manifest = String::from_utf8(manifest).unwrap().replace("1.0.0", version);
        let granted: Vec<String> = granted.iter().map(|text| (*text).to_owned()).collect();
        let new = NewPlugin {
            id: "hostile",
            source,
            url: None,
            module: &module,
            module_sha256: &sha256_hex(&module),
            manifest_sha256: &sha256_hex(manifest.as_bytes()),
            pinned: false,
            manifest: &manifest,
            requested: &granted,
            granted: &granted,
            installed_by: None,
        };
        plugins::install(&self.stage.db, &new, Replaces::Any, Timestamp(1)).await.unwrap().unwrap()
    }
}

#[tokio::test]
async fn a_version_that_can_not_be_loaded_for_now_leaves_the_one_before() {
    let setup = Setup::set().await;
    let Setup { stage, loader, plugins, .. } = &setup;
    setup.store("1.0.0", PluginSource::Upload, &[HOST, "kv:use"]).await;
    loader.reload().await.unwrap();
    let first = plugins.get("hostile").unwrap();
    setup.store("2.0.0", PluginSource::Upload, &["kv:use", "attest:sign"]).await;
    plugins::lose_modules(&stage.db).await;
    loader.reload().await.unwrap();
    let kept = plugins.get("hostile").unwrap();
    assert_eq!(kept.manifest.version, first.manifest.version);
    let granted: Vec<String> = kept.grants.iter().map(ToString::to_string).collect();
    assert_eq!(granted, ["kv:use"], "neither what was revoked nor what only the new version has");
    assert!(plugins.failures()["hostile"].contains("missing"));
    setup.store("2.0.0", PluginSource::Upload, &["kv:use"]).await;
    loader.reload().await.unwrap();
    assert_eq!(plugins.get("hostile").unwrap().manifest.version.to_string(), "2.0.0");
    assert!(plugins.failures().is_empty());
}

#[tokio::test]
async fn a_plugin_that_left_the_configuration_is_loaded_to_revoke_its_tokens() {
    let setup = Setup::set().await;
    let Setup { stage, loader, plugins, .. } = &setup;
    setup.store("1.0.0", PluginSource::File, &["kv:use"]).await;
    loader.reload().await.unwrap();
    assert!(plugins.get("hostile").is_none() && plugins.failures()["hostile"].contains("PLUGIN_DIR"));
    plugins::begin_removal(&stage.db, "hostile").await.unwrap().unwrap();
    loader.reload().await.unwrap();
    assert_eq!(plugins.get("hostile").unwrap().status, PluginStatus::Removing);
}

#[tokio::test]
async fn a_plugin_that_was_resumed_before_its_pause_was_read_is_called_again() {
    let setup = Setup::set().await;
    let Setup { stage, loader, plugins, paused } = &setup;
    let all: Vec<String> = super::all_grants().iter().map(ToString::to_string).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    setup.store("1.0.0", PluginSource::Upload, &all).await;
    loader.reload().await.unwrap();
    let plugin = plugins.get("hostile").unwrap();
    let run = RunContext::default();
    let call = async |name: &str| stage.calls.call_function(&plugin, &scope(), name, "[1]", &run).await;
    for _ in 0..crate::plugins::limits::TRAPS {
        assert!(matches!(call("trap").await, Err(CallError::Failed(_))));
    }
    paused.add("hostile");
    assert!(matches!(call("echo").await, Err(CallError::Paused)));
    plugins::resume(&stage.db, "hostile").await.unwrap().unwrap();
    loader.reload().await.unwrap();
    assert_eq!(call("echo").await.unwrap(), "[1]");
}

#[tokio::test]
async fn a_configured_plugin_that_fails_is_an_event_for_each_new_reason() {
    let setup = Setup::set().await;
    for reason in ["one", "one", "two", "two", "one"] {
        setup.loader.failed("x", reason.to_owned());
    }
    setup.loader.failed("x", "é".repeat(400));
    let events = setup.stage.events("plugin.refused").await;
    assert_eq!(events.len(), 4);
    assert!(events.iter().all(|event| event.actor_did.is_none() && event.subject.as_deref() == Some("x")));
    // The type is the one that admins' attempts have.
    let attempt = Event::PluginRefused { actor: None, id: None, url: None, error: String::new() };
    setup.stage.events.record(attempt);
    assert_eq!(setup.stage.events("plugin.refused").await.len(), 5);
}
