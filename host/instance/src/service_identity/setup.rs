//! Changes the identity: keys, registration and updates at the PLC directory (admin-api.md §10 and §11).

use std::fmt;

use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER};
use serde_json::Value;
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use super::keys::{self, KeyUse};
use super::plc::{self, Directory, InvalidOperation, PlcError, Publication};
use super::publication::publication;
use super::{Additions, BUILT_IN, Mode, ServiceIdentity};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::{PrivateKey, SealingKey};
use belvedere_storage::store::service_identity::{self, IdentityRow};
use belvedere_storage::store::verification_methods::{self, MethodRow};
use belvedere_storage::store::{Db, StoreError};
use belvedere_web::http::Error;

/// Verification methods of an instance. The PLC directory accepts ten, the instance's own key among them.
const MAX_METHODS: i64 = 9;

/// Seconds for which the status of the set-up relies on the operation that it has seen.
const SEEN_SECONDS: i64 = 5;

/// The reason why a change of the identity failed.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Plc(#[from] PlcError),
    #[error(transparent)]
    Operation(#[from] InvalidOperation),
    /// The step belongs to another mode, or to another state of the set-up.
    #[error("{0}")]
    Step(&'static str),
    #[error("the identity has a DID already: {0}")]
    Registered(String),
    #[error("{0} can't be opened: it was sealed under another TOKEN_ENCRYPTION_KEY, or is damaged")]
    SealedKey(&'static str),
    #[error("at most {MAX_METHODS} verification methods")]
    TooManyMethods,
}

/// A new identity. Keys that are `None` stay as they are, or are made where the mode needs them.
#[derive(Clone, Debug)]
pub struct IdentityChange {
    pub mode: Mode,
    pub did: Option<Did>,
    pub attached_account: Option<Did>,
    /// Sealed keys, from a backup of this instance.
    pub signing_key: Option<Vec<u8>>,
    pub rotation_key: Option<Vec<u8>>,
}

/// Changes the identity. Callers announce each change, so that every host reloads the [`ServiceIdentity`].
pub struct Setup {
    db: Db,
    sealing: SealingKey,
    random: Random,
    clock: Clock,
    directory: Directory,
    /// The endpoint of the services.
    origin: String,
    /// Operations of the directory name the one before, so that only one at a time can succeed.
    operations: Mutex<()>,
    /// The last operation of a DID as it was read last, `None` if that failed. For the status of the set-up, which any
    /// account may ask for.
    last_seen: Mutex<Option<(Did, Timestamp, Option<Value>)>>,
}

impl Setup {
    pub fn new(
        db: Db,
        sealing: SealingKey,
        (random, clock): (Random, Clock),
        directory: Directory,
        origin: String,
    ) -> Self {
        Self {
            db,
            sealing,
            random,
            clock,
            directory,
            origin,
            operations: Mutex::default(),
            last_seen: Mutex::default(),
        }
    }

    /// Replaces the identity, which has to be set up again. A rotation key stays whatever happens: it is the only means
    /// to change a did:plc.
    ///
    /// # Errors
    /// When a sealed key can't be opened, or the store fails.
    pub async fn replace(&self, change: IdentityChange) -> Result<(), SetupError> {
        for (key_use, name, sealed) in [
            (KeyUse::Signing, "signing_key_enc", &change.signing_key),
            (KeyUse::Rotation, "rotation_key_enc", &change.rotation_key),
        ] {
            if let Some(sealed) = sealed {
                keys::open(&self.sealing, key_use, sealed).map_err(|_| SetupError::SealedKey(name))?;
            }
        }
        let (old, now, mode) = (service_identity::get(&self.db).await?, self.clock.now(), change.mode);
        let created_at = old.as_ref().map_or(now, |old| old.created_at);
        let (old_signing, old_rotation, old_account, old_session) = old
            .map_or_else(Default::default, |old| {
                (old.signing_key, old.rotation_key, old.attached_account_did, old.attached_session_id)
            });
        let or_new = |given: Option<Vec<u8>>, is_needed: bool, key_use| {
            given.or_else(|| is_needed.then(|| keys::generate(&self.sealing, &self.random, key_use).1))
        };
        let attached_account_did = change.attached_account.map(|did| did.to_string());
        let row = IdentityRow {
            mode: mode.as_str().to_owned(),
            did: change.did.map(|did| did.to_string()),
            signing_key: or_new(change.signing_key.or(old_signing), mode.has_own_key(), KeyUse::Signing),
            rotation_key: or_new(
                old_rotation.or(change.rotation_key),
                mode == Mode::DidPlc,
                KeyUse::Rotation,
            ),
            attached_session_id: old_session.filter(|_| old_account == attached_account_did),
            attached_account_did,
            setup_complete: false,
            created_at,
            updated_at: now,
        };
        service_identity::put(&self.db, &row, mode.has_own_key().then_some(BUILT_IN)).await?;
        Ok(())
    }

    /// Registers a did:plc for the identity, and returns it.
    ///
    /// # Errors
    /// When the mode is another one, there is a DID already, or the directory refuses.
    pub async fn register(&self, identity: &ServiceIdentity) -> Result<Did, SetupError> {
        let _one_at_a_time = self.operations.lock().await;
        let row = self.row_in(Mode::DidPlc, "only the mode did_plc registers a DID").await?;
        if let Some(did) = row.did {
            return Err(SetupError::Registered(did));
        }
        let rotation = self.rotation_key_of(&row)?;
        // Additions are published by the first update.
        let publication = self.publication(identity, &Additions::default()).await?;
        let genesis = plc::genesis(&rotation, &publication)?;
        self.directory.submit(&genesis).await?;
        service_identity::set_did(&self.db, genesis.did.as_str(), self.clock.now()).await?;
        Ok(genesis.did)
    }

    /// Brings the document of the instance's own did:plc up to date.
    ///
    /// # Errors
    /// When the mode is another one, no DID is registered, or the directory refuses.
    pub async fn sync(&self, identity: &ServiceIdentity, more: &Additions) -> Result<(), SetupError> {
        let _one_at_a_time = self.operations.lock().await;
        let text = "only the mode did_plc signs updates itself";
        let row = self.row_in(Mode::DidPlc, text).await?;
        let did = row.did.as_deref().and_then(|did| Did::try_from(did).ok());
        let did = did.ok_or(SetupError::Step("no DID is registered yet: POST /api/setup/plc/register"))?;
        let (started, rotation) = (self.clock.now(), self.rotation_key_of(&row)?);
        let publication = self.publication(identity, more).await?;
        let last = self.directory.last(&did).await?;
        if let Some(update) = plc::signed_update(&did, &last, &rotation, &publication)? {
            self.directory.submit(&update).await?;
            *self.last_seen.lock().await = None;
        }
        verification_methods::forget_deleted(&self.db, started).await?;
        Ok(())
    }

    /// The whole document of an attached account with our services and keys put in, for its PDS to sign. `None` when
    /// it is up to date.
    ///
    /// # Errors
    /// When the directory does not answer.
    pub async fn account_update(
        &self,
        identity: &ServiceIdentity,
        account: &Did,
        more: &Additions,
    ) -> Result<Option<Value>, SetupError> {
        let publication = self.publication(identity, more).await?;
        let last = self.directory.last(account).await?;
        Ok(plc::merged(&last, &publication)?)
    }

    /// Keeps the DID of the attached account, after its document was updated. `began` is the time before the update was
    /// made.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn account_updated(&self, account: &Did, began: Timestamp) -> Result<(), SetupError> {
        *self.last_seen.lock().await = None;
        service_identity::set_did(&self.db, account.as_str(), self.clock.now()).await?;
        verification_methods::forget_deleted(&self.db, began).await?;
        Ok(())
    }

    /// Whether the document at the PLC directory has our services and keys; `None` when the directory does not say, or
    /// the DID is no did:plc of the set-up.
    pub async fn is_published(&self, identity: &ServiceIdentity, more: &Additions) -> Option<bool> {
        let current = identity.load();
        let did = current.did.as_ref().filter(|_| current.mode.is_some_and(Mode::is_plc))?;
        let publication = self.publication(identity, more).await.ok()?;
        let last = self.last_seen(did).await?;
        Some(plc::merged(&last, &publication).ok()?.is_none())
    }

    /// The rotation key's scalar, for the operator to keep.
    ///
    /// # Errors
    /// When the mode is another one, the set-up is complete, or the store fails.
    pub async fn rotation_key(&self) -> Result<Zeroizing<[u8; 32]>, SetupError> {
        let row = self.row_in(Mode::DidPlc, "only the mode did_plc has a rotation key").await?;
        Ok(self.rotation_key_of(&row)?.to_bytes())
    }

    /// Adds a verification method with a new key.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the fragment exists; [`SetupError::TooManyMethods`].
    pub async fn add_method(&self, fragment: &str) -> Result<MethodRow, SetupError> {
        let (key, sealed) = keys::generate(&self.sealing, &self.random, KeyUse::Method);
        let method = MethodRow {
            id: self.random.uuid(),
            fragment_id: fragment.to_owned(),
            public_key_multibase: key.public().to_multikey(),
            sealed: Some(sealed),
            created_at: self.clock.now(),
            deleted_at: None,
        };
        if !verification_methods::create(&self.db, &method, MAX_METHODS).await? {
            return Err(SetupError::TooManyMethods);
        }
        Ok(method)
    }

    /// The last operation of a DID, at most [`SEEN_SECONDS`] old; `None` when the directory does not say.
    async fn last_seen(&self, did: &Did) -> Option<Value> {
        let mut seen = self.last_seen.lock().await;
        let now = self.clock.now();
        if let Some((known, at, last)) = &*seen
            && known == did
            && now < at.plus_seconds(SEEN_SECONDS)
        {
            return last.clone();
        }
        let last = self.directory.last_now(did).await.ok();
        *seen = Some((did.clone(), now, last.clone()));
        last
    }

    async fn publication(
        &self,
        identity: &ServiceIdentity,
        more: &Additions,
    ) -> Result<Publication, StoreError> {
        // Another host may have changed the identity a moment ago.
        identity.reload(&self.db, &self.sealing).await?;
        publication(&self.db, &identity.load(), &self.origin, more).await
    }

    async fn row_in(&self, mode: Mode, otherwise: &'static str) -> Result<IdentityRow, SetupError> {
        let row = service_identity::get(&self.db).await?;
        row.filter(|row| row.mode == mode.as_str()).ok_or(SetupError::Step(otherwise))
    }

    fn rotation_key_of(&self, row: &IdentityRow) -> Result<PrivateKey, SetupError> {
        let sealed = row.rotation_key.as_deref();
        let sealed = sealed.ok_or(SetupError::Step("there is no rotation key: set the identity up again"))?;
        Ok(keys::open(&self.sealing, KeyUse::Rotation, sealed)?)
    }
}

impl From<SetupError> for Error {
    fn from(error: SetupError) -> Self {
        let text = error.to_string();
        match error {
            SetupError::Store(error) => Self::from(error),
            SetupError::Plc(PlcError::RateLimited(wait)) => {
                let wait = HeaderValue::from(wait.as_secs());
                Self::new(StatusCode::SERVICE_UNAVAILABLE, text).with_header(RETRY_AFTER, wait)
            }
            SetupError::Plc(error) => {
                tracing::warn!(%error, "an operation of the PLC directory failed");
                Self::new(StatusCode::BAD_GATEWAY, text)
            }
            SetupError::Operation(_) | SetupError::Registered(_) => Self::conflict(text),
            SetupError::Step(_) | SetupError::SealedKey(_) | SetupError::TooManyMethods => {
                Self::bad_request(text)
            }
        }
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup").field("directory", &self.directory).finish_non_exhaustive()
    }
}
