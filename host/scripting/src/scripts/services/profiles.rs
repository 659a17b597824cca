//! Reads the profiles of accounts: the record that the settings name, and the handle.

use std::collections::HashMap;
use std::sync::Arc;

use super::IndexError;
use super::server::store_error;
use belvedere_instance::lexicons::Registry;
use belvedere_instance::people::People;
use belvedere_instance::settings::Settings;
use belvedere_protocol::atproto::{Did, RecordUri};
use belvedere_storage::store::records::{FullRecordRow, Room, get_many_full};
use belvedere_storage::store::{Db, StoreError};
use belvedere_web::fair_share::Tenant;

/// Bytes of the record of a profile: a hundred times an ordinary one. An account that a page shows may have a larger one.
const RECORD_BYTES: usize = 64 << 10;

/// An account as a page shows it beside its records.
#[derive(Debug)]
pub struct Profile {
    pub did: Did,
    /// The verified handle, if it is known.
    pub handle: Option<String>,
    /// The PDS, if it is known.
    pub pds: Option<String>,
    /// Whether the account is taken down, deactivated or moderated. Its record is not shown.
    pub is_hidden: bool,
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
        let (collection, _) = self.settings.profile();
        if self.registry.snapshot().record_schema(collection.as_str()).is_none() {
            let text = format!(
                "{collection} is not indexed, because it has no lexicon here: the setting profile_collection names \
                     the collection of profiles"
            );
            return Err(IndexError::Invalid(text));
        }
        let profiles = self.read(tenant, dids, max_bytes).await.map_err(store_error)?;
        Ok(profiles.into_iter().filter(|profile| !profile.is_hidden).collect())
    }

    /// The profiles of accounts, of hidden ones too; without a record while the collection of profiles is not indexed.
    ///
    /// # Errors
    /// When the store can't be read now.
    pub async fn read(
        &self,
        tenant: &Tenant,
        dids: Vec<Did>,
        max_bytes: usize,
    ) -> Result<Vec<Profile>, StoreError> {
        let (collection, rkey) = self.settings.profile();
        let of =
            |did: &Did| RecordUri { did: did.clone(), collection: collection.clone(), rkey: rkey.clone() };
        let uris: Vec<RecordUri> = dids.iter().map(of).collect();
        let _permit = self.db.read_permit(tenant).await?;
        let room = Room { each: RECORD_BYTES, all: max_bytes };
        let found = get_many_full(&self.db, &uris, room).await?;
        let mut accounts = self.people.shown(&dids).await?;
        let mut records: HashMap<String, FullRecordRow> =
            found.rows.into_iter().map(|full| (full.row.did.clone(), full)).collect();
        let profile = |did: Did| {
            let account = accounts.remove(did.as_str()).unwrap_or_default();
            let record = records.remove(did.as_str()).filter(|full| full.invalid_reason.is_none());
            let (handle, pds, is_hidden) = (account.handle, account.pds, account.is_hidden);
            Profile { did, handle, pds, is_hidden, record }
        };
        Ok(dids.into_iter().map(profile).collect())
    }
}
