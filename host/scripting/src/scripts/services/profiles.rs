//! Reads the profiles of accounts: the record that the settings name, and the handle.

use std::collections::HashMap;
use std::sync::Arc;

use super::IndexError;
use super::server::store_error;
use belvedere_instance::lexicons::Registry;
use belvedere_instance::people::People;
use belvedere_instance::settings::Settings;
use belvedere_protocol::atproto::{Did, RecordUri};
use belvedere_storage::store::Db;
use belvedere_storage::store::records::{FullRecordRow, Room, get_many_full};
use belvedere_web::fair_share::Tenant;

/// Bytes of the record of a profile: a hundred times an ordinary one. An account that a page shows may have a larger one.
const RECORD_BYTES: usize = 64 << 10;

/// An account as a page shows it beside its records.
#[derive(Debug)]
pub struct Profile {
    pub did: Did,
    /// The verified handle, if it is known.
    pub handle: Option<String>,
    /// The record, if the index has a valid one of at most [`RECORD_BYTES`].
    pub record: Option<FullRecordRow>,
}

/// Reads profiles from the index, for `db.profiles` and views.
#[derive(Clone, Debug)]
pub struct Profiles {
    pub db: Db,
    pub settings: Arc<Settings>,
    pub registry: Arc<Registry>,
    pub people: People,
}

impl Profiles {
    /// The same profiles, with the handles that are known: none is looked up later.
    #[must_use]
    pub fn only_stored(&self) -> Self {
        Self { people: self.people.without_look_ups(), ..self.clone() }
    }

    /// The profiles of the accounts that are not hidden. Records of more than `max_bytes` together are left out.
    pub(crate) async fn of(
        &self,
        tenant: &Tenant,
        dids: Vec<Did>,
        max_bytes: usize,
    ) -> Result<Vec<Profile>, IndexError> {
        let (collection, rkey) = self.settings.profile();
        if self.registry.snapshot().record_schema(collection.as_str()).is_none() {
            let text = format!(
                "{collection} is not indexed, because it has no lexicon here: the setting profile_collection names \
                     the collection of profiles"
            );
            return Err(IndexError::Invalid(text));
        }
        let of =
            |did: &Did| RecordUri { did: did.clone(), collection: collection.clone(), rkey: rkey.clone() };
        let uris: Vec<RecordUri> = dids.iter().map(of).collect();
        let _permit = self.db.read_permit(tenant).await.map_err(store_error)?;
        let room = Room { each: RECORD_BYTES, all: max_bytes };
        let found = get_many_full(&self.db, &uris, room).await.map_err(store_error)?;
        let mut accounts = self.people.shown(&dids).await.map_err(store_error)?;
        let mut records: HashMap<String, FullRecordRow> =
            found.rows.into_iter().map(|full| (full.row.did.clone(), full)).collect();
        let mut profiles = Vec::with_capacity(dids.len());
        for did in dids {
            let account = accounts.remove(did.as_str()).unwrap_or_default();
            if !account.is_hidden {
                let record = records.remove(did.as_str()).filter(|full| full.invalid_reason.is_none());
                profiles.push(Profile { did, handle: account.handle, record });
            }
        }
        Ok(profiles)
    }
}
