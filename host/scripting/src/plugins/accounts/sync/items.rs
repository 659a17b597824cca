//! Checks the items of a page, and makes records of them: collection, `$type`, key, signature, lexicon.

use bytes::Bytes;
use serde_json::Value;

use super::super::super::calls::Item;
use super::super::super::manifest::Permission;
use super::super::{Accounts, Linker, check};
use super::stop::Stop;
use crate::plugins::limits;
use belvedere_instance::pds::{Write, WriteAction};
use belvedere_instance::repos::Validation;
use belvedere_protocol::atproto::record::{self, MAX_RECORD_BYTES};
use belvedere_protocol::atproto::{Cid, Did, Nsid, RecordKey, RecordUri, Tid, set_record_type};
use belvedere_protocol::crypto::sha256;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::external_accounts::{AccountRow, Progress};
use belvedere_web::http::nul;

/// Items of one page. A page is in memory whole, and is read again after a crash.
pub(super) const MAX_ITEMS: usize = limits::PAGE_ITEMS;

/// Longest record key (atproto, Record Key).
const MAX_KEY: usize = 512;

/// A record that may be written.
#[derive(Debug)]
pub(in crate::plugins::accounts) struct PreparedItem {
    pub(in crate::plugins::accounts) uri: RecordUri,
    /// JSON text with `$type`.
    pub(in crate::plugins::accounts) record: Bytes,
    pub(in crate::plugins::accounts) cid: Cid,
}

/// Checks a page. Items that are not valid records are left out and counted.
///
/// # Errors
/// When an item is of a collection that the operator did not grant or the user did not consent to, or wants a signature that
/// was not granted: then nothing of the page is written.
pub(in crate::plugins::accounts) async fn prepare(
    accounts: &Accounts,
    plugin: &dyn Linker,
    row: &AccountRow,
    items: Vec<Item>,
) -> Result<(Progress, Vec<PreparedItem>), Stop> {
    let did = Did::try_from(row.did.as_str());
    let did = did.map_err(|_| StoreError::Corrupt("external_accounts.did".to_owned()))?;
    let mut collections = Vec::with_capacity(items.len());
    for item in &items {
        collections.push(permitted(plugin, row, item)?);
    }
    let mut progress = Progress::default();
    let mut prepared = Vec::with_capacity(items.len());
    for (index, (item, collection)) in items.into_iter().zip(collections).enumerate() {
        let mut skip = |of: String, reason: String| {
            progress.processed += 1;
            progress.skipped += 1;
            progress.note.get_or_insert_with(|| check::shown_by(plugin, &format!("{of}: {reason}")));
        };
        let rkey = match key(item.dedup_key.as_deref()) {
            Ok(Some(key)) => key,
            Ok(None) => generated_key(accounts, row, &collection, index)?,
            Err(TooLong) => {
                skip(collection.to_string(), format!("the dedup-key has more than {MAX_KEY} characters"));
                continue;
            }
        };
        let uri = RecordUri { did: did.clone(), collection, rkey };
        match record_of(accounts, &uri, &item) {
            Ok((record, cid)) => prepared.push(PreparedItem { uri, record, cid }),
            Err(reason) => skip(format!("{}/{}", uri.collection, uri.rkey), reason),
        }
        // Checking a megabyte takes milliseconds: other tasks go on in between.
        tokio::task::yield_now().await;
    }
    Ok((progress, prepared))
}

/// The collection of an item, if the plugin may write it.
fn permitted(plugin: &dyn Linker, row: &AccountRow, item: &Item) -> Result<Nsid, Stop> {
    let named = || check::shown_by(plugin, &item.collection);
    let Ok(collection) = Nsid::try_from(item.collection.as_str()) else {
        return Err(Stop::fail(
            "forbidden",
            format!("the plugin named {:?}, which is no collection", named()),
        ));
    };
    if !plugin.grants().allow_write(&collection) {
        let text = format!("the plugin wanted to write {}, which its operator did not grant", named());
        return Err(Stop::Fail { code: "forbidden", text, keeps: true });
    }
    if !row.collections.iter().any(|consented| consented == collection.as_str()) {
        let text = format!(
            "the plugin wanted to write {}, to which the user did not consent: link the account again",
            named()
        );
        return Err(Stop::Fail { code: "forbidden", text, keeps: true });
    }
    if item.sign && !plugin.grants().contains(&Permission::SignRecords) {
        let text = "the plugin wanted a record to be signed, which its operator did not grant".to_owned();
        return Err(Stop::Fail { code: "forbidden", text, keeps: true });
    }
    Ok(collection)
}

/// A dedup-key is too long for a record key. A generated one instead would write the item again with each sync.
#[derive(Debug, PartialEq, Eq)]
struct TooLong;

/// The record key of an item that names one: without characters that keys can't have. `None` when nothing is left.
fn key(dedup_key: Option<&str>) -> Result<Option<RecordKey>, TooLong> {
    let Some(dedup_key) = dedup_key else { return Ok(None) };
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '~');
    let key: String = dedup_key.chars().filter(allowed).collect();
    if key.len() > MAX_KEY {
        return Err(TooLong);
    }
    Ok(RecordKey::try_from(key.as_str()).ok())
}

/// The record key of an item without one: the only one that the lexicon allows, or one that depends on the run and the
/// position, so that a page that is read again after a crash writes no record twice.
fn generated_key(
    accounts: &Accounts,
    row: &AccountRow,
    collection: &Nsid,
    index: usize,
) -> Result<RecordKey, Stop> {
    if let Some(fixed) = accounts.0.repos.key_of_new(collection, None) {
        return Ok(fixed);
    }
    let started = row.sync_started_at.map_or(0, |at| at.0);
    let micros = started + row.sync_pages * MAX_ITEMS as i64 + index as i64;
    let tid = Tid::new(u64::try_from(micros).unwrap_or_default(), clock_id(&row.id));
    let key = tid.ok().and_then(|tid| RecordKey::try_from(tid.to_string().as_str()).ok());
    key.ok_or_else(|| Stop::fail("internal", "no record key can be made of the present time"))
}

/// A clock identifier of ten bits, the same for all records of an account.
fn clock_id(id: &str) -> u16 {
    let [a, b, ..] = sha256(id.as_bytes());
    u16::from_be_bytes([a, b]) & 0x3ff
}

/// The record of an item, with `$type` and its signature if it wants one, checked as every write.
///
/// # Errors
/// Says what is wrong with it.
fn record_of(accounts: &Accounts, uri: &RecordUri, item: &Item) -> Result<(Bytes, Cid), String> {
    let RecordUri { did, collection, rkey } = uri;
    if item.value.len() > MAX_RECORD_BYTES {
        return Err("the record is larger than 1 MiB".to_owned());
    }
    // Also refuses a text that is too deep for what follows, or has a key twice.
    record::inspect(item.value.as_bytes()).map_err(|error| error.to_string())?;
    let mut value: Value = serde_json::from_str(&item.value).map_err(|error| error.to_string())?;
    let fields = value.as_object_mut().ok_or("the record is not an object")?;
    set_record_type(fields, collection.as_str()).map_err(|error| error.to_string())?;
    if item.sign {
        let unsigned = Value::Object(fields.clone()).to_string();
        let signature = accounts.0.attestation.sign(unsigned.as_bytes(), did.as_str());
        let signature = signature.map_err(|error| error.to_string())?;
        match fields.entry("signatures").or_insert_with(|| Value::Array(Vec::new())) {
            Value::Array(signatures) => signatures.push(signature),
            _ => return Err("signatures is not a list".to_owned()),
        }
    }
    let text = Bytes::from(value.to_string());
    let (collection, rkey) = (collection.clone(), Some(rkey.clone()));
    let write = Write { collection, rkey, action: WriteAction::Put(text.clone()), swap: None };
    let checked = accounts.0.repos.check_writes(&[write], Validation::Lexicon);
    checked.map_err(|invalid| invalid.to_string())?;
    if nul::in_json(&text) {
        return Err("the record holds a NUL character".to_owned());
    }
    let cid = record::inspect(&text).map_err(|error| error.to_string())?.cid;
    Ok((text, cid.map_err(|error| error.to_string())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dedup_key_becomes_a_record_key() {
        let of = |text: &str| key(Some(text)).unwrap().map(|key| key.to_string());
        assert_eq!(of("steam:570/x y").as_deref(), Some("steam:570xy"));
        assert_eq!(of("a.b-c_d:e~F9").as_deref(), Some("a.b-c_d:e~F9"));
        let longest = "a".repeat(MAX_KEY);
        assert_eq!(of(&longest).as_deref(), Some(&*longest));
        for none in ["", ".", "..", "ü/ ", "\0"] {
            assert_eq!(of(none), None, "{none:?}");
        }
        assert_eq!(key(None), Ok(None));
        assert_eq!(key(Some(&"a".repeat(MAX_KEY + 1))), Err(TooLong));
    }

    #[test]
    fn an_accounts_clock_identifier_has_ten_bits() {
        assert_eq!(clock_id("a"), clock_id("a"));
        assert!((0..100).all(|n| clock_id(&n.to_string()) < 1_024));
    }
}
