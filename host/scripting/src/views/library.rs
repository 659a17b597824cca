//! The stored views, by the NSID of their method. Replaced as a whole, after a change of a view or of a lexicon.

use std::collections::HashMap;
use std::sync::Arc;

use belvedere_base::reloadable::Reloadable;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
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
pub struct Views(Reloadable<HashMap<Box<str>, Arc<StoredView>>>);

impl Views {
    /// The view that answers a method.
    pub fn get(&self, method: &str) -> Option<Arc<StoredView>> {
        self.0.load().get(method).cloned()
    }

    /// Loads all views from the store, and compares them with their lexicons.
    ///
    /// # Errors
    /// When the store can't be read; the views stay as they were.
    pub async fn reload(&self, db: &Db) -> Result<(), StoreError> {
        let read = async |_: &HashMap<Box<str>, Arc<StoredView>>| {
            let rows = store::scripts::list(db, None).await?.into_iter();
            let views: Vec<(Trigger, String)> = rows
                .filter_map(|row| {
                    let trigger = Trigger::parse(&row.id).ok()?;
                    (trigger.kind() == TriggerKind::View).then_some((trigger, row.body))
                })
                .collect();
            let documents = if views.is_empty() { Documents::new() } else { documents(db).await? };
            Ok(views.into_iter().map(|(trigger, source)| stored(trigger, &source, &documents)).collect())
        };
        self.0.reload(read).await
    }
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
    let rows = store::lexicons::list(db).await?.into_iter();
    Ok(rows.filter_map(|row| Some((row.id, serde_json::from_str(&row.lexicon_json).ok()?))).collect())
}
