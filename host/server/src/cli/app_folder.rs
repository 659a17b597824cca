//! Reads the folder of an app: `lexicons/`, `scripts/` (or the folders of the triggers in the folder itself), and `app.json` with the
//! settings of its lexicons.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use super::folder;
use super::lexicon::{self, FolderLexicon, LexiconSettings, Upload};
use super::push_options::PushOptions;
use super::push_request::{self, PushRequest, Pushed};
use super::remote::Server;
use super::script::{self, LoadedFolder};
use crate::api::admin::export::{ExportedLexicon, ExportedScript, FORMAT, InstanceExport};
use belvedere_instance::config::Config;
use belvedere_scripting::scripts::Engine;
use belvedere_storage::store::lexicons::MANUAL;

const LEXICONS: &str = "lexicons";
const SCRIPTS: &str = "scripts";
const SETTINGS: &str = "app.json";

/// The folder of an app.
#[derive(Clone, Debug)]
pub(super) struct AppFolder(pub(super) PathBuf);

/// `app.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AppFile {
    /// By NSID.
    #[serde(default)]
    lexicons: BTreeMap<String, LexiconSettings>,
}

/// The parts of an app that were read.
#[derive(Default)]
pub(super) struct AppParts {
    lexicons: Option<Vec<FolderLexicon>>,
    settings: BTreeMap<String, LexiconSettings>,
    scripts: Option<LoadedFolder>,
}

impl AppFolder {
    /// The folder of the lexicons, if there is one.
    pub(super) fn lexicons(&self) -> Option<PathBuf> {
        Some(self.0.join(LEXICONS)).filter(|lexicons| lexicons.is_dir())
    }

    /// The folder of the scripts: `scripts`, if there is one.
    pub(super) fn scripts(&self) -> PathBuf {
        let scripts = self.0.join(SCRIPTS);
        if scripts.is_dir() { scripts } else { self.0.clone() }
    }

    /// Whether a path, relative to the folder, belongs to the lexicons.
    pub(super) fn is_of_lexicons(path: &Path) -> bool {
        path.starts_with(LEXICONS) || path == Path::new(SETTINGS)
    }

    /// The folders into which an app is pulled.
    pub(super) fn to_write(&self) -> (PathBuf, PathBuf) {
        (self.0.join(LEXICONS), self.0.join(SCRIPTS))
    }

    /// Replaces the settings of lexicons.
    pub(super) fn write_settings(&self, lexicons: BTreeMap<String, LexiconSettings>) -> anyhow::Result<()> {
        let path = self.0.join(SETTINGS);
        if lexicons.is_empty() && !path.exists() {
            return Ok(());
        }
        let text = serde_json::to_string_pretty(&AppFile { lexicons })?;
        folder::replace(&path, &format!("{text}\n"))
    }

    fn settings(&self) -> anyhow::Result<BTreeMap<String, LexiconSettings>> {
        let path = self.0.join(SETTINGS);
        if !path.exists() {
            return Ok(BTreeMap::new());
        }
        let text = std::fs::read(&path).with_context(|| format!("{} can't be read", path.display()))?;
        let file: AppFile = serde_json::from_slice(&text)
            .with_context(|| format!("{} is not {{\"lexicons\": {{NSID: settings}}}}", path.display()))?;
        Ok(file.lexicons)
    }

    /// Reads the lexicons, if the folder has any, and their settings. `None` when one is invalid: it prints why.
    ///
    /// # Errors
    /// When a file can't be read, or settings are of a lexicon that has no file.
    pub(super) fn read_lexicons(&self) -> anyhow::Result<Option<AppParts>> {
        let settings = self.settings()?;
        let lexicons = match self.lexicons() {
            Some(dir) => match lexicon::read_folder(&dir)? {
                // Most likely the folder is another one, and everything on the server would be deleted.
                Some(lexicons) if lexicons.is_empty() => bail!("{} has no lexicons", dir.display()),
                Some(lexicons) => Some(lexicons),
                None => return Ok(None),
            },
            None => None,
        };
        let has_file = |id: &str| lexicons.iter().flatten().any(|lexicon| lexicon.id.as_str() == id);
        if let Some(other) = settings.keys().find(|id| !has_file(id)) {
            bail!("{} has settings of {other}, which has no file", self.0.join(SETTINGS).display());
        }
        Ok(Some(AppParts { lexicons, settings, scripts: None }))
    }

    /// The lexicons, scripts and views, to compare them with those of an instance. Scripts are not loaded.
    ///
    /// # Errors
    /// When a file can't be read or is invalid.
    pub(super) fn export(&self) -> anyhow::Result<InstanceExport> {
        let Some(AppParts { lexicons, settings, .. }) = self.read_lexicons()? else {
            bail!("{} has invalid lexicons, so nothing was compared", self.0.display());
        };
        let lexicon = |file: FolderLexicon| {
            let own = settings.get(file.id.as_str()).cloned().unwrap_or_default();
            Ok(ExportedLexicon {
                id: file.id.to_string(),
                source: MANUAL.to_owned(),
                target_collection: own.target_collection,
                action: own.action,
                token_cost: own.token_cost.map(i64::from),
                lexicon_json: serde_json::value::RawValue::from_string(file.text)?,
            })
        };
        let script = |(id, body)| ExportedScript { id, description: None, body };
        Ok(InstanceExport {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            did: String::new(),
            url: self.0.display().to_string(),
            exported_at: String::new(),
            lexicons: lexicons.unwrap_or_default().into_iter().map(lexicon).collect::<anyhow::Result<_>>()?,
            scripts: script::bodies(&self.scripts())?.into_iter().map(script).collect(),
            settings: BTreeMap::new(),
        })
    }

    /// Reads the scripts and views. `None` when one does not load: it prints why.
    ///
    /// # Errors
    /// When the folder can't be read.
    pub(super) async fn read_scripts(&self, engine: &Engine) -> anyhow::Result<Option<AppParts>> {
        let scripts = script::read(&self.scripts(), engine).await?;
        Ok(scripts.map(|scripts| AppParts { scripts: Some(scripts), ..AppParts::default() }))
    }
}

impl AppParts {
    /// These parts and others.
    pub(super) fn with(self, scripts: Self) -> Self {
        Self { scripts: scripts.scripts, ..self }
    }

    /// Whether there is no file of either.
    pub(super) fn is_empty(&self) -> bool {
        self.lexicons.is_none() && self.scripts.as_ref().is_none_or(|scripts| scripts.to_push().is_empty())
    }

    /// The lexicons as they are sent; `None` if the app has none.
    pub(super) fn uploads(&self, backfill: bool) -> anyhow::Result<Option<Vec<Upload<'_>>>> {
        let Some(lexicons) = &self.lexicons else { return Ok(None) };
        let mut uploads = Vec::with_capacity(lexicons.len());
        for file in lexicons {
            uploads.push(Upload::of(&file.text, backfill, self.settings.get(file.id.as_str()))?);
        }
        Ok(Some(uploads))
    }

    /// Sends the parts that were read, as one version. `backfill`: new record lexicons start backfills.
    ///
    /// # Errors
    /// When the server refuses it; then nothing is stored.
    pub(super) async fn push(
        &self,
        PushOptions { delete: delete_others, dry_run }: PushOptions,
        backfill: bool,
        server: &Server,
        config: &Config,
    ) -> anyhow::Result<Pushed> {
        let lexicons = self.uploads(backfill)?;
        let scripts = self.scripts.as_ref().map(LoadedFolder::to_push);
        let (lexicons, scripts) = (lexicons.as_deref(), scripts.as_deref());
        let request = PushRequest { lexicons, keep_settings: true, scripts, delete_others, dry_run };
        push_request::send(&request, server, config).await
    }
}
