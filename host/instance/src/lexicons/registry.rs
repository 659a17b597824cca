//! The registry of uploaded lexicons: one immutable snapshot, replaced after every change.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::fields::{self, FieldsByCollection};
use super::followed::Followed;
use super::schema::RecordSchema;
use super::{fingerprint, schema};
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_base::reloadable::Reloadable;
use belvedere_protocol::atproto::lexicon::{Format, KeyType, LexiconKind, SchemaErrors, Schemas};
use belvedere_protocol::atproto::record::{self, Unencodable};
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_protocol::spaces::config::declared_collections;
use belvedere_storage::store::index::Validity;
use belvedere_storage::store::lexicons::{LexiconRow, NewLexicon};
use belvedere_storage::store::{self, Db, StoreError};

/// The properties of a lexicon that requests and the stream need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lexicon {
    pub id: Nsid,
    pub kind: LexiconKind,
    /// The collection that a query or procedure without a script reads or writes.
    pub target_collection: Option<Nsid>,
    /// The action of a procedure without a script.
    pub action: ProcedureAction,
    /// Tokens that one call takes from the client's rate-limit bucket; `None`: the instance's default.
    pub token_cost: Option<u32>,
}

/// The action of a procedure without a script on its target collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProcedureAction {
    Create,
    Update,
    Delete,
    /// Updates the record that the body names, else creates one.
    #[default]
    Upsert,
}

impl ProcedureAction {
    const ALL: [Self; 4] = [Self::Create, Self::Update, Self::Delete, Self::Upsert];

    /// The name in the admin API and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Upsert => "upsert",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == name)
    }
}

/// All lexicons at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    by_nsid: HashMap<Box<str>, Arc<Lexicon>>,
    tracked: Arc<[Nsid]>,
    schemas: HashMap<Box<str>, RecordSchema>,
    /// The parsed lexicons, for validating records.
    pub documents: Schemas,
    /// The types of spaces, with the collections that they declare.
    spaces: HashMap<Box<str>, Arc<[Nsid]>>,
    /// The lexicons of the network, with the accounts that publish them.
    authorities: HashMap<Box<str>, Did>,
    fingerprints: HashMap<Box<str>, i64>,
    fields: FieldsByCollection,
    /// The rows of the stored lexicons, sorted by NSID.
    versions: Vec<LexiconRow>,
}

impl Snapshot {
    pub fn get(&self, nsid: &str) -> Option<&Arc<Lexicon>> {
        self.by_nsid.get(nsid)
    }

    /// The collections that are indexed: those with a record lexicon. Sorted.
    pub fn tracked(&self) -> &Arc<[Nsid]> {
        &self.tracked
    }

    pub fn is_tracked(&self, collection: &str) -> bool {
        self.tracked.binary_search_by(|c| c.as_str().cmp(collection)).is_ok()
    }

    /// The collections that the lexicon of a type of spaces declares; `None` if the type has no lexicon here.
    pub fn declared_collections(&self, kind: &str) -> Option<Arc<[Nsid]>> {
        self.spaces.get(kind).cloned()
    }

    /// The account that publishes a lexicon, if it was taken from the network.
    pub fn authority(&self, nsid: &str) -> Option<&Did> {
        self.authorities.get(nsid)
    }

    fn followed(&self) -> Followed {
        let collections = Arc::clone(&self.tracked);
        Followed { collections, published_lexicons: !self.authorities.is_empty() }
    }

    /// `{key, required, defaults, record}` of a record lexicon, as JSON text.
    pub fn record_schema(&self, collection: &str) -> Option<Bytes> {
        self.schemas.get(collection).map(|schema| schema.summary.clone())
    }

    /// The record keys of a collection; any without a lexicon here.
    pub fn key_type(&self, collection: &str) -> &KeyType {
        self.schemas.get(collection).map_or(&ANY_KEY, |schema| &schema.key)
    }

    /// The fingerprint of the lexicons that a collection's records are validated against.
    pub fn fingerprint(&self, collection: &str) -> Option<i64> {
        self.fingerprints.get(collection).copied()
    }

    /// The fields of the records of a collection; none without a lexicon here.
    pub fn record_fields(&self, collection: &str) -> fields::RecordFields {
        self.fields.get(collection).cloned().unwrap_or_default()
    }

    /// Whether records are validated in the same way by another snapshot.
    pub(super) fn same_fingerprints(&self, other: &Self) -> bool {
        self.tracked == other.tracked && self.fingerprints == other.fingerprints
    }

    /// Validates a record that was inspected already: `cbor` is its encoding. The text is only read if it has none.
    pub fn validate_encoded(
        &self,
        collection: &str,
        rkey: &str,
        text: &[u8],
        cbor: Result<&[u8], Unencodable>,
    ) -> Validity {
        self.check(collection, Some(rkey), text, cbor).map_or_else(Mismatch::verdict, |()| Validity::Valid)
    }

    /// Validates the text of a record. Use [`hand_over_thread`] for a large record, or for many.
    pub fn validate(&self, collection: &str, rkey: &str, text: &[u8]) -> Validity {
        match record::to_cbor(text) {
            Ok(cbor) => self.validate_encoded(collection, rkey, text, cbor.as_deref().map_err(|why| *why)),
            Err(invalid) => Validity::Invalid(invalid.to_string().into()),
        }
    }

    /// Checks a record and its key against the lexicon of its collection, if it is here. Without `rkey` the PDS generates
    /// the key.
    ///
    /// # Errors
    /// The first mismatches.
    pub fn check(
        &self,
        collection: &str,
        rkey: Option<&str>,
        text: &[u8],
        cbor: Result<&[u8], Unencodable>,
    ) -> Result<(), Mismatch> {
        if !self.is_tracked(collection) {
            return Ok(());
        }
        let key = self.key_type(collection).check(rkey).err().map(|wrong| wrong.to_string());
        let record = match cbor {
            Ok(cbor) => self.documents.validate(collection, cbor).err().map(|errors| errors.to_string()),
            Err(why) => {
                // The schema knows which declared field is wrong.
                let value = serde_json::from_slice(text).unwrap_or_default();
                let errors = self.documents.check(collection, &value).err();
                Some(errors.map_or_else(|| why.to_string(), |errors| errors.to_string()))
            }
        };
        let reasons: Vec<String> = key.into_iter().chain(record).collect();
        if reasons.is_empty() { Ok(()) } else { Err(Mismatch(reasons.join("; "))) }
    }

    /// The parameters of a call of a method, as its lexicon declares them. `None` for a method without a lexicon here.
    ///
    /// # Errors
    /// The differences from the lexicon.
    pub fn params(
        &self,
        method: &str,
        given: &[(String, String)],
    ) -> Result<Option<Map<String, Value>>, SchemaErrors> {
        self.documents.params(method, given)
    }

    /// The format that a method's lexicon declares for a parameter, or for each value of one that is an array.
    pub fn param_format(&self, method: &str, name: &str) -> Option<Format> {
        self.documents.param_format(method, name)
    }

    /// The JSON text of a procedure's input, with the defaults of its lexicon.
    ///
    /// # Errors
    /// The differences from the lexicon.
    pub fn input(&self, method: &str, text: Bytes) -> Result<Bytes, SchemaErrors> {
        hand_over_thread(text.len(), || self.documents.input(method, text))
    }

    /// Checks the JSON text of a method's output.
    ///
    /// # Errors
    /// The differences from the lexicon.
    pub fn check_output(&self, method: &str, text: &[u8]) -> Result<(), SchemaErrors> {
        hand_over_thread(text.len(), || self.documents.check_output(method, text))
    }

    /// The text of a record, in which `[]` replaces each `{}` that the collection's lexicon declares as an array.
    pub fn record_with_arrays(&self, collection: &str, text: Bytes) -> Bytes {
        self.documents.record_with_arrays(collection, text)
    }

    /// The same for the text of a method's output.
    pub fn output_with_arrays(&self, method: &str, text: Bytes) -> Bytes {
        self.documents.output_with_arrays(method, text)
    }

    /// The lexicons as they would be if `new` were uploaded over the stored `rows`.
    pub fn preview(rows: Vec<LexiconRow>, new: &[NewLexicon]) -> Self {
        Self::of(store::lexicons::rows_with(rows, new))
    }

    fn new(lexicons: impl IntoIterator<Item = Lexicon>) -> Self {
        let by_nsid: HashMap<Box<str>, Arc<Lexicon>> =
            lexicons.into_iter().map(|l| (l.id.as_str().into(), Arc::new(l))).collect();
        let mut tracked: Vec<Nsid> =
            by_nsid.values().filter(|l| l.kind == LexiconKind::Record).map(|l| l.id.clone()).collect();
        tracked.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        Self { by_nsid, tracked: tracked.into(), ..Self::default() }
    }

    /// Reads the stored lexicons. One whose id is not an NSID is ignored and logged.
    fn of(rows: Vec<LexiconRow>) -> Self {
        let bytes = rows.iter().map(|row| row.lexicon_json.len()).sum();
        hand_over_thread(bytes, || Self::compile(rows))
    }

    fn compile(rows: Vec<LexiconRow>) -> Self {
        let versions = rows.iter().map(LexiconRow::version).collect();
        let schemas =
            rows.iter().filter_map(|row| Some((row.id.as_str().into(), schema::read(row)?))).collect();
        let documents = Schemas::new(rows.iter().map(|row| row.lexicon_json.as_str()));
        let networked = rows.iter().filter(|row| row.source == store::lexicons::NETWORK);
        let authorities = networked
            .filter_map(|row| {
                Some((row.id.as_str().into(), Did::try_from(row.authority_did.as_deref()?).ok()?))
            })
            .collect();
        let spaces = rows.iter().filter(|row| row.lexicon_type == LexiconKind::Space.as_str());
        let spaces = spaces
            .filter_map(|row| {
                let declared = declared_collections(&serde_json::from_str(&row.lexicon_json).ok()?)?;
                Some((row.id.as_str().into(), declared.into()))
            })
            .collect();
        let texts = rows.iter().map(|row| (row.id.as_str(), row.lexicon_json.as_str()));
        let fingerprints = fingerprint::fingerprints(texts);
        let fields = fields::of_collections(&rows);
        let lexicons = rows.into_iter().filter_map(|row| {
            let Ok(id) = Nsid::try_from(row.id.as_str()) else {
                tracing::error!(id = row.id, "a stored lexicon is ignored: its id is not an NSID");
                return None;
            };
            Some(Lexicon {
                id,
                kind: LexiconKind::from_name(&row.lexicon_type),
                target_collection: row.target_collection.and_then(|c| Nsid::try_from(c.as_str()).ok()),
                action: row.action.as_deref().and_then(ProcedureAction::from_name).unwrap_or_default(),
                token_cost: row.token_cost.and_then(|cost| u32::try_from(cost).ok()),
            })
        });
        Self {
            schemas,
            documents,
            spaces,
            authorities,
            fingerprints,
            fields,
            versions,
            ..Self::new(lexicons)
        }
    }
}

/// The key type of collections without a lexicon.
static ANY_KEY: KeyType = KeyType::Any;

/// Bytes of the reason that is stored with an invalid record.
const MAX_REASON_BYTES: usize = 1_000;

/// The reason why a record does not match its lexicon, with the paths of the values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Mismatch(String);

impl Mismatch {
    fn verdict(self) -> Validity {
        // It may quote the record, and PostgreSQL can't store U+0000.
        let mut reason = self.0.replace('\0', "\u{fffd}");
        reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
        Validity::Invalid(reason.into())
    }
}

/// Holds the current snapshot and notifies subscribers when what the stream has to deliver changes.
#[derive(Debug, Default)]
pub struct Registry {
    current: Reloadable<Snapshot>,
    followed: watch::Sender<Followed>,
}

impl Registry {
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// The lexicon of one NSID, without keeping the rest of the snapshot alive.
    pub fn get(&self, nsid: &str) -> Option<Arc<Lexicon>> {
        self.current.load().get(nsid).cloned()
    }

    /// The events that the stream has to deliver, with notification of changes.
    pub fn subscribe(&self) -> watch::Receiver<Followed> {
        self.followed.subscribe()
    }

    /// Loads a new snapshot from the store, if a lexicon has changed there.
    ///
    /// # Errors
    /// When the store can't be read; the old snapshot stays.
    pub async fn reload(&self, db: &Db) -> Result<(), StoreError> {
        let read = async |current: &Snapshot| {
            if store::lexicons::versions(db).await? == current.versions {
                return Ok(None);
            }
            Ok(Some(Snapshot::of(store::lexicons::list(db).await?)))
        };
        self.current.reload_if_changed(read, || self.announce()).await
    }

    /// Notifies the subscribers if what the stream has to deliver has changed.
    fn announce(&self) {
        let followed = self.current.load().followed();
        self.followed.send_if_modified(|old| {
            let changed = *old != followed;
            *old = followed;
            changed
        });
    }

    /// A registry with these lexicons, without a store.
    #[cfg(any(test, feature = "testing"))]
    pub fn with(lexicons: impl IntoIterator<Item = Lexicon>) -> Self {
        let registry = Self::default();
        registry.replace(Snapshot::new(lexicons));
        registry
    }

    #[cfg(any(test, feature = "testing"))]
    fn replace(&self, snapshot: Snapshot) {
        self.current.store(snapshot);
        self.announce();
    }
}
