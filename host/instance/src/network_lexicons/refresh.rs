//! Compares a lexicon with the one that its publisher has now, and decides what applies.
//!
//! DNS decides who publishes: a new publisher's document is taken like a new version of the old one's. Whatever can't be
//! fetched, checked or used leaves the last document in force.

use serde_json::Value;

use crate::events::Event;
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_protocol::atproto::lexicon::{breaking_change, covers};
use belvedere_protocol::atproto::{Did, Nsid, record};
use belvedere_storage::store::lexicon_revisions::MAX_REVISIONS;
use belvedere_storage::store::lexicons::{self, LexiconRow, NETWORK, Refreshed};
use belvedere_storage::store::revisions::{self, FullRevision, RevisionRow, Subject};
use belvedere_storage::store::{Db, StoreError};

use super::NetworkLexicons;
use super::resolve::{ResolveError, Resolved};

/// The result of a refresh.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The lexicons in the store changed, so hosts must reload them.
    Changed,
    /// Only the time of the last fetch changed, if anything.
    Unchanged,
    /// The last document stays, for this reason.
    Kept(Kept),
}

/// The reason why the last document stays.
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
        match breaks(&self.core.db, &row, &resolved.json).await? {
            Some(reason) => Ok(Outcome::Kept(Kept::Refused(resolved.authority, reason))),
            None => self.replace_document(&row, nsid, resolved).await,
        }
    }

    /// The lexicon, if it follows the network.
    async fn stored(&self, nsid: &Nsid) -> Result<Option<LexiconRow>, StoreError> {
        let row = lexicons::get(&self.core.db, nsid.as_str()).await?;
        Ok(row.filter(|row| row.source == NETWORK))
    }

    async fn remove(&self, nsid: &Nsid) -> Result<Outcome, StoreError> {
        if !lexicons::delete_network(&self.core.db, nsid.as_str()).await? {
            return Ok(Outcome::Unchanged);
        }
        self.core.events.record(Event::NetworkLexiconRemoved { actor: None, nsid: nsid.clone() });
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
        let stored = lexicons::refresh(&self.core.db, &fetched, self.core.clock.now()).await?;
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
        if !lexicons::refresh(&self.core.db, &fetched, self.core.clock.now()).await? {
            return Ok(Outcome::Unchanged);
        }
        if row.authority_did.as_deref() != Some(authority.as_str()) {
            self.record_authority(row, nsid, authority.clone());
        }
        let (nsid, revision) = (nsid.clone(), row.revision + 1);
        self.core.events.record(Event::NetworkLexiconUpdated { actor: None, nsid, authority, revision });
        Ok(Outcome::Changed)
    }

    fn record_authority(&self, row: &LexiconRow, nsid: &Nsid, to: Did) {
        let (nsid, from) = (nsid.clone(), row.authority_did.clone());
        self.core.events.record(Event::NetworkLexiconAuthorityChanged { actor: None, nsid, from, to });
    }
}

/// The reason why a published document breaks the lexicon's records, or those of earlier revisions whose records are
/// valid still: a property that one change removes, the next could add with another type.
///
/// A change that would drop the only revision that has such a property is refused too, since nothing would guard it any
/// more. An operator can take it all the same.
async fn breaks(db: &Db, row: &LexiconRow, published: &Value) -> Result<Option<String>, StoreError> {
    let parsed = |text: &str| serde_json::from_str(text).unwrap_or_default();
    let current: Value = parsed(&row.lexicon_json);
    if let Some(reason) = hand_over_thread(row.lexicon_json.len(), || breaking_change(&current, published)) {
        return Ok(Some(reason));
    }
    let is_in_force = |earlier: &Value| breaking_change(earlier, &current).is_none();
    let mut newer = None;
    for RevisionRow { revision, .. } in revisions::list(db, Subject::Lexicon, &row.id).await? {
        if revision == row.revision {
            continue;
        }
        let earlier = revisions::get(db, Subject::Lexicon, &row.id, revision).await?;
        let Some(FullRevision { text: Some(text), .. }) = earlier else { continue };
        let is_last_kept = revision <= row.revision + 1 - MAX_REVISIONS;
        let (earlier, reason) = hand_over_thread(text.len() + row.lexicon_json.len(), || {
            let earlier: Value = parsed(&text);
            let reason = if let Some(reason) = breaking_change(&earlier, published) {
                is_in_force(&earlier).then(|| format!("{reason} (since revision {revision})"))
            } else {
                let newer = newer.as_ref().filter(|newer| is_in_force(newer));
                let is_kept =
                    covers(&earlier, published) || newer.is_some_and(|newer| covers(&earlier, newer));
                (is_last_kept && !is_kept && is_in_force(&earlier)).then(|| {
                    format!(
                        "revision {revision} has what later ones lack, and is the last of {MAX_REVISIONS} that are \
                         kept: after this change, others could break it"
                    )
                })
            };
            (earlier, reason)
        });
        if reason.is_some() {
            return Ok(reason);
        }
        newer = Some(earlier);
    }
    Ok(None)
}

/// Whether two texts are the same record, whatever their spaces and the order of their fields.
fn is_same(stored: &str, published: &str) -> bool {
    let cid = |text: &str| record::inspect(text.as_bytes()).ok()?.cid.ok();
    stored == published || cid(stored).is_some_and(|stored| cid(published) == Some(stored))
}

#[cfg(test)]
mod tests {
    use belvedere_standins::database::Database;
    use serde_json::json;

    use super::*;
    use belvedere_base::clock::Timestamp;
    use belvedere_storage::store::lexicons::NewLexicon;

    const NOTE: &str = "com.example.note";
    const NOW: Timestamp = Timestamp(1_800_000_000_000_000);

    /// A record lexicon with these properties.
    fn note(properties: &Value, description: usize) -> Value {
        let record = json!({ "type": "object", "properties": properties });
        let main = json!({ "type": "record", "key": "any", "record": record });
        json!({ "lexicon": 1, "id": NOTE, "description": format!("version {description}"), "defs": { "main": main } })
    }

    /// A new lexicon that follows the network.
    async fn follow(db: &Db, document: &Value) {
        lexicons::delete(db, NOTE).await.unwrap();
        let lexicon = NewLexicon {
            id: NOTE.to_owned(),
            lexicon_json: document.to_string(),
            lexicon_type: "record".to_owned(),
            source: NETWORK.to_owned(),
            authority_did: Some("did:plc:publisher".to_owned()),
            ..NewLexicon::default()
        };
        lexicons::upsert(db, &lexicon, NOW).await.unwrap();
    }

    /// Publishes a document. Returns why it is refused.
    async fn publish(db: &Db, document: &Value) -> Option<String> {
        let row = lexicons::get(db, NOTE).await.unwrap().unwrap();
        let refused = breaks(db, &row, document).await.unwrap();
        if refused.is_none() {
            let text = document.to_string();
            let document = Some((text.as_str(), "record"));
            let authority_did = "did:plc:publisher";
            let fetched = Refreshed { id: NOTE, revision: row.revision, authority_did, document };
            assert!(lexicons::refresh(db, &fetched, NOW).await.unwrap());
        }
        refused
    }

    #[tokio::test]
    async fn no_number_of_changes_makes_the_guard_forget() {
        for database in [Database::sqlite(), Database::postgres().await] {
            let db = Db::open(&database.url, 4).await.unwrap();
            db.migrate().await.unwrap();
            let (text, nothing) = (json!({ "text": { "type": "string" } }), json!({}));
            let other = note(&json!({ "text": { "type": "integer" } }), 0);

            follow(&db, &note(&text, 0)).await;
            for version in 1..=MAX_REVISIONS as usize + 1 {
                assert_eq!(
                    publish(&db, &note(&text, version)).await,
                    None,
                    "nothing is lost with revision 1"
                );
            }
            assert!(
                publish(&db, &other).await.unwrap().ends_with("text.type changes from string to integer")
            );
            assert_eq!(publish(&db, &note(&nothing, 0)).await, None);
            let mut refused = None;
            for version in 1..2 * MAX_REVISIONS as usize {
                if version % 10 == 0 {
                    assert!(publish(&db, &other).await.unwrap().contains("(since revision"), "{version}");
                }
                refused = publish(&db, &note(&nothing, version)).await;
                if refused.is_some() {
                    break;
                }
            }
            assert!(refused.unwrap().starts_with("revision 52 has what later ones lack"));
            assert_eq!(publish(&db, &note(&text, 0)).await, None, "the property comes back as it was");
        }
    }

    #[test]
    fn the_order_of_fields_is_no_change() {
        assert!(is_same(r#"{"a":1,"b":[2]}"#, r#"{ "b": [2], "a": 1 }"#));
        assert!(!is_same(r#"{"a":1}"#, r#"{"a":2}"#));
        assert!(!is_same("nonsense", r#"{"a":2}"#));
    }
}
