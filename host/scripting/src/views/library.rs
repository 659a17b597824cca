//! The stored views, by the NSID of their method. Replaced as a whole, after a change of a view or of a lexicon.

use std::collections::HashMap;
use std::sync::Arc;

use belvedere_base::reloadable::Reloadable;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_storage::store::lexicons::LexiconRow;
use belvedere_storage::store::{self, Db, StoreError};

use super::check::{Documents, check};
use super::compile::compile;
use super::offence::Offences;
use super::plan::View;
use crate::scripts::OutputSample;

/// A stored view.
#[derive(Debug)]
pub struct StoredView {
    pub trigger: Trigger,
    /// The mistakes, for a view that does not fit its lexicon any more. Calling it returns them, instead of falling back to
    /// the built-in behaviour.
    pub view: Result<View, Offences>,
    pub outputs: OutputSample,
}

/// All views, by method.
#[derive(Debug, Default)]
pub struct Views(Reloadable<ViewSet>);

#[derive(Debug, Default)]
struct ViewSet {
    by_method: HashMap<Box<str>, Arc<StoredView>>,
    /// The documents of the views, by trigger id, and the versions of the lexicons that they were compared with.
    sources: Vec<(String, String)>,
    lexicons: Vec<LexiconRow>,
}

impl Views {
    /// The view that answers a method.
    pub fn get(&self, method: &str) -> Option<Arc<StoredView>> {
        self.0.load().by_method.get(method).cloned()
    }

    /// Loads all views from the store and compares them with their lexicons, if one of either has changed.
    ///
    /// # Errors
    /// When the store can't be read; the views stay as they were.
    pub async fn reload(&self, db: &Db) -> Result<(), StoreError> {
        let read = async |current: &ViewSet| {
            let rows = store::scripts::list(db, None).await?.into_iter();
            let sources: Vec<_> = rows.filter(|row| is_view(&row.id)).map(|row| (row.id, row.body)).collect();
            let lexicons =
                if sources.is_empty() { Vec::new() } else { store::lexicons::versions(db).await? };
            if sources == current.sources && lexicons == current.lexicons {
                return Ok(None);
            }
            let documents = if sources.is_empty() { Documents::new() } else { documents(db).await? };
            let triggers = sources.iter().filter_map(|(id, source)| Some((Trigger::parse(id).ok()?, source)));
            let by_method = triggers.map(|(trigger, source)| stored(trigger, source, &documents)).collect();
            Ok(Some(ViewSet { by_method, sources, lexicons }))
        };
        self.0.reload_if_changed(read, || ()).await
    }
}

fn is_view(id: &str) -> bool {
    Trigger::parse(id).is_ok_and(|trigger| trigger.kind() == TriggerKind::View)
}

fn stored(trigger: Trigger, source: &str, documents: &Documents) -> (Box<str>, Arc<StoredView>) {
    let view = compile(source).and_then(|view| check(&view, trigger.subject(), documents).map(|()| view));
    if let Err(offences) = &view {
        tracing::error!(view = trigger.id(), %offences, "a stored view does not fit its lexicon");
    }
    let method = trigger.subject().into();
    (method, Arc::new(StoredView { trigger, view, outputs: OutputSample::default() }))
}

/// The documents of all stored lexicons.
///
/// # Errors
/// When the store can't be read.
pub async fn documents(db: &Db) -> Result<Documents, StoreError> {
    Ok(documents_of(&store::lexicons::list(db).await?))
}

/// The documents of lexicons.
pub fn documents_of(lexicons: &[LexiconRow]) -> Documents {
    let document = |row: &LexiconRow| Some((row.id.clone(), serde_json::from_str(&row.lexicon_json).ok()?));
    lexicons.iter().filter_map(document).collect()
}
