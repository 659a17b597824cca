//! Compares a lexicon with the one that its publisher has now, and decides what applies.
//!
//! DNS decides who publishes: a new publisher's document is taken like a new version of the old one's. Whatever can't be
//! fetched, checked or used leaves the last document in force.

use serde_json::Value;

use crate::atproto::lexicon::breaking_change;
use crate::atproto::{Did, Nsid, record};
use crate::events::{Event, NetworkLexiconChange, NetworkLexiconEvent};
use crate::store::lexicons::{self, LexiconRow, Refreshed};
use crate::store::revisions::{self, FullRevision, RevisionRow, Subject};
use crate::store::{StoreError, lexicons::NETWORK};

use super::NetworkLexicons;
use super::resolve::{ResolveError, Resolved};

/// What a refresh did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The lexicons in the store changed, so hosts must reload them.
    Changed,
    /// Only the time of the last fetch changed, if anything.
    Unchanged,
    /// The last document stays, for this reason.
    Kept(Kept),
}

/// Why the last document stays.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Failed(String),
    Refused(Did, String),
}

impl NetworkLexicons {
    /// Refreshes one lexicon. `was_deleted`: its publisher has just deleted it; if DNS still names this publisher, and
    /// its PDS confirms the deletion, the lexicon is removed here too.
    pub(super) async fn refresh(&self, nsid: &Nsid, was_deleted: bool) -> Result<Outcome, StoreError> {
        let Some(row) = self.stored(nsid).await? else { return Ok(Outcome::Unchanged) };
        let resolved = match self.resolve(nsid).await {
            Ok(resolved) => resolved,
            Err(ResolveError::NotFound { authority, .. })
                if was_deleted && row.authority_did.as_deref() == Some(authority.as_str()) =>
            {
                return self.remove(nsid).await;
            }
            Err(error) => return Ok(Outcome::Kept(Kept::Failed(error.to_string()))),
        };
        if is_same(&row.lexicon_json, &resolved.text) {
            return self.keep_document(&row, nsid, resolved.authority).await;
        }
        match self.breaks(&row, &resolved.json).await? {
            Some(reason) => Ok(Outcome::Kept(Kept::Refused(resolved.authority, reason))),
            None => self.replace_document(&row, nsid, resolved).await,
        }
    }

    /// Why a published document makes invalid what the lexicon accepts. It is compared with the earlier revisions too whose
    /// records are valid still: a property that one change removes, the next could add with another type.
    async fn breaks(&self, row: &LexiconRow, published: &Value) -> Result<Option<String>, StoreError> {
        let parsed = |text: &str| serde_json::from_str(text).unwrap_or_default();
        let (db, current) = (&self.deps.db, parsed(&row.lexicon_json));
        if let Some(reason) = breaking_change(&current, published) {
            return Ok(Some(reason));
        }
        for earlier in revisions::list(db, Subject::Lexicon, &row.id).await? {
            let earlier = revisions::get(db, Subject::Lexicon, &row.id, earlier.revision).await?;
            let Some(FullRevision { row: RevisionRow { revision, .. }, text: Some(text) }) = earlier else {
                continue;
            };
            let document = parsed(&text);
            if breaking_change(&document, &current).is_none()
                && let Some(reason) = breaking_change(&document, published)
            {
                return Ok(Some(format!("{reason} (since revision {revision})")));
            }
        }
        Ok(None)
    }

    /// The lexicon, if it follows the network.
    async fn stored(&self, nsid: &Nsid) -> Result<Option<LexiconRow>, StoreError> {
        let row = lexicons::get(&self.deps.db, nsid.as_str()).await?;
        Ok(row.filter(|row| row.source == NETWORK))
    }

    async fn remove(&self, nsid: &Nsid) -> Result<Outcome, StoreError> {
        if !lexicons::delete_network(&self.deps.db, nsid.as_str()).await? {
            return Ok(Outcome::Unchanged);
        }
        self.record(nsid, NetworkLexiconChange::Removed);
        Ok(Outcome::Changed)
    }

    async fn keep_document(
        &self,
        row: &LexiconRow,
        nsid: &Nsid,
        authority: Did,
    ) -> Result<Outcome, StoreError> {
        let fetched = Refreshed {
            id: &row.id,
            revision: row.revision,
            authority_did: authority.as_str(),
            document: None,
        };
        let stored = lexicons::refresh(&self.deps.db, &fetched, self.deps.clock.now()).await?;
        if !stored || row.authority_did.as_deref() == Some(authority.as_str()) {
            return Ok(Outcome::Unchanged);
        }
        self.record_authority(row, nsid, authority);
        Ok(Outcome::Changed)
    }

    async fn replace_document(
        &self,
        row: &LexiconRow,
        nsid: &Nsid,
        resolved: Resolved,
    ) -> Result<Outcome, StoreError> {
        let Resolved { authority, text, document, .. } = resolved;
        let fetched = Refreshed {
            id: &row.id,
            revision: row.revision,
            authority_did: authority.as_str(),
            document: Some((&text, document.kind.as_str())),
        };
        if !lexicons::refresh(&self.deps.db, &fetched, self.deps.clock.now()).await? {
            return Ok(Outcome::Unchanged);
        }
        if row.authority_did.as_deref() != Some(authority.as_str()) {
            self.record_authority(row, nsid, authority.clone());
        }
        self.record(nsid, NetworkLexiconChange::Updated { authority, revision: row.revision + 1 });
        Ok(Outcome::Changed)
    }

    fn record_authority(&self, row: &LexiconRow, nsid: &Nsid, to: Did) {
        self.record(nsid, NetworkLexiconChange::AuthorityChanged { from: row.authority_did.clone(), to });
    }

    /// Records an event that no user caused.
    pub(super) fn record(&self, nsid: &Nsid, what: NetworkLexiconChange) {
        let event = NetworkLexiconEvent { nsid: nsid.clone(), actor: None, what };
        self.deps.events.record(Event::NetworkLexicon(event));
    }
}

/// Whether two texts are the same record, whatever their spaces and the order of their fields.
fn is_same(stored: &str, published: &str) -> bool {
    let cid = |text: &str| record::inspect(text.as_bytes()).ok()?.cid.ok();
    stored == published || cid(stored).is_some_and(|stored| cid(published) == Some(stored))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_fields_is_no_change() {
        assert!(is_same(r#"{"a":1,"b":[2]}"#, r#"{ "b": [2], "a": 1 }"#));
        assert!(!is_same(r#"{"a":1}"#, r#"{"a":2}"#));
        assert!(!is_same("nonsense", r#"{"a":2}"#));
    }
}
