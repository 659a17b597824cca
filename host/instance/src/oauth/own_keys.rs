//! The keys with which the instance authenticates to authorization servers (`private_key_jwt`), as all hosts share them.
//!
//! A session is bound to the key that it began with: its server accepts no other one for it. So a rotated key stays
//! published and in use until its sessions have ended, or an admin deletes it. Keys are read from the store for each
//! use, which comes with requests to other servers anyway: a rotation takes effect on all hosts at once.

use std::fmt;

use serde_json::Value;

use super::ClientCredentials;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_protocol::crypto::{Algorithm, PrivateKey, SealingKey, jwk};
use belvedere_storage::store::instance_oauth_keys::{self, InstanceKeyRow, REVOKED};
use belvedere_storage::store::{Db, StoreError};

/// Time for which a key is published before it signs, in seconds. Authorization servers keep a client's metadata for
/// some minutes (the reference implementation: ten) and refuse a key that is not in it.
const PUBLISHED_SECONDS: i64 = 15 * 60;

/// A key with its id, its JWK thumbprint.
#[derive(Debug)]
pub struct OwnKey {
    pub kid: String,
    key: PrivateKey,
}

/// The stored keys. Cheap to clone.
#[derive(Clone)]
pub struct OwnKeys {
    db: Db,
    sealing: SealingKey,
    random: Random,
    clock: Clock,
}

impl OwnKey {
    /// The credentials of the client `client_id` with this key.
    pub fn credentials(self, client_id: String) -> ClientCredentials {
        ClientCredentials { client_id, key: Some((self.kid, self.key)) }
    }
}

impl OwnKeys {
    pub fn new(db: Db, sealing: SealingKey, random: Random, clock: Clock) -> Self {
        Self { db, sealing, random, clock }
    }

    /// Stores the first key, unless there is one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn adopt(&self, first: &PrivateKey) -> Result<(), StoreError> {
        let (kid, sealed, public) = self.seal(first)?;
        instance_oauth_keys::create_first(&self.db, (&kid, &sealed, &public), self.clock.now()).await
    }

    /// The key that signs for new sessions: the newest that has been published for a while.
    ///
    /// # Errors
    /// When the store can't be read, or the key can't be decrypted.
    pub async fn signing(&self) -> Result<OwnKey, StoreError> {
        let keys = instance_oauth_keys::list(&self.db).await?;
        let row = signing_key(&keys, self.clock.now());
        self.open(
            row.ok_or_else(|| StoreError::Corrupt("instance_oauth_keys has no current key".to_owned()))?,
        )
    }

    /// The key with an id; `None` when it was deleted, even if sessions have yet to be revoked with it.
    ///
    /// # Errors
    /// As [`Self::signing`].
    pub async fn get(&self, kid: &str) -> Result<Option<OwnKey>, StoreError> {
        let row = instance_oauth_keys::get(&self.db, kid).await?;
        row.filter(|row| row.status != REVOKED).map(|row| self.open(&row)).transpose()
    }

    /// Like [`Self::get`], also a deleted key, for the revocation of its sessions.
    ///
    /// # Errors
    /// As [`Self::signing`].
    pub async fn get_for_revocation(&self, kid: &str) -> Result<Option<OwnKey>, StoreError> {
        instance_oauth_keys::get(&self.db, kid).await?.map(|row| self.open(&row)).transpose()
    }

    /// The public keys, each a JWK, for the client metadata.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn published(&self) -> Result<Vec<Value>, StoreError> {
        let rows = instance_oauth_keys::list(&self.db).await?;
        rows.iter().map(|row| serde_json::from_str(&row.public_jwk).map_err(|_| damaged(&row.kid))).collect()
    }

    /// Makes a new key the current one. Returns its id.
    ///
    /// # Errors
    /// When the store fails; [`StoreError::Conflict`] when another host rotates at the same time.
    pub async fn rotate(&self) -> Result<String, StoreError> {
        let (kid, sealed, public) = self.seal(&PrivateKey::generate(Algorithm::Es256, &self.random))?;
        instance_oauth_keys::rotate(&self.db, (&kid, &sealed, &public), self.clock.now()).await?;
        Ok(kid)
    }

    /// The key's id, the sealed key, and the public JWK as text.
    fn seal(&self, key: &PrivateKey) -> Result<(String, Vec<u8>, String), StoreError> {
        let public = key.public();
        let (Some(kid), Some(mut public)) = (jwk::thumbprint(&public), jwk::public_jwk(&public)) else {
            return Err(StoreError::Corrupt("the instance's OAuth key is not of P-256".to_owned()));
        };
        public["kid"] = kid.as_str().into();
        public["alg"] = "ES256".into();
        public["use"] = "sig".into();
        let sealed = self.sealing.seal(&self.random, &purpose(&kid), &*key.to_bytes());
        Ok((kid, sealed, public.to_string()))
    }

    fn open(&self, row: &InstanceKeyRow) -> Result<OwnKey, StoreError> {
        let scalar = self.sealing.open(&purpose(&row.kid), &row.sealed).map_err(|_| damaged(&row.kid))?;
        let key = PrivateKey::from_bytes(Algorithm::Es256, &scalar).map_err(|_| damaged(&row.kid))?;
        Ok(OwnKey { kid: row.kid.clone(), key })
    }
}

/// `rows` are newest first. If all keys are new, the oldest has the best chance to be known.
fn signing_key(rows: &[InstanceKeyRow], now: Timestamp) -> Option<&InstanceKeyRow> {
    let published = now.plus_seconds(-PUBLISHED_SECONDS);
    let usable = || rows.iter().filter(|row| row.status != REVOKED);
    usable().find(|row| row.created_at <= published).or_else(|| usable().next_back())
}

fn purpose(kid: &str) -> String {
    format!("instance_oauth_keys.{kid}")
}

fn damaged(kid: &str) -> StoreError {
    StoreError::Corrupt(format!(
        "instance_oauth_keys {kid}: sealed under another TOKEN_ENCRYPTION_KEY, or damaged"
    ))
}

impl fmt::Debug for OwnKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnKeys")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_storage::store::instance_oauth_keys::CURRENT;

    fn row(kid: &str, status: &str, created_at: i64) -> InstanceKeyRow {
        InstanceKeyRow {
            kid: kid.to_owned(),
            sealed: Vec::new(),
            public_jwk: String::new(),
            status: status.to_owned(),
            created_at: Timestamp(0).plus_seconds(created_at),
            retired_at: None,
            session_count: 0,
        }
    }

    #[test]
    fn a_new_key_signs_once_it_has_been_published_for_a_while() {
        let kid = |rows: &[InstanceKeyRow], now: i64| {
            signing_key(rows, Timestamp(0).plus_seconds(now)).map(|row| row.kid.clone()).unwrap_or_default()
        };
        let first = [row("a", CURRENT, 1_000)];
        assert_eq!((kid(&first, 1_000).as_str(), kid(&first, 9_000).as_str()), ("a", "a"));
        let rotated = [row("b", CURRENT, 5_000), row("a", "retiring", 1_000)];
        let turn = 5_000 + PUBLISHED_SECONDS;
        assert_eq!((kid(&rotated, turn - 1).as_str(), kid(&rotated, turn).as_str()), ("a", "b"));
        // After the deletion of the older one there is no choice.
        let deleted = [row("b", CURRENT, 5_000), row("a", REVOKED, 1_000)];
        assert_eq!(kid(&deleted, 5_000), "b");
        let twice = [row("c", CURRENT, 5_001), row("b", "retiring", 5_000), row("a", REVOKED, 1_000)];
        assert_eq!(kid(&twice, 5_002), "b");
        assert_eq!(kid(&[], 0), "");
    }

    #[tokio::test]
    async fn a_deleted_key_is_used_for_revocations_only() {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(&format!("sqlite://{}/test.db", directory.path().display()), 1).await.unwrap();
        db.migrate().await.unwrap();
        let random = Random::system();
        let keys = OwnKeys::new(db.clone(), SealingKey::new([7; 32]), random.clone(), Clock::system());
        keys.adopt(&PrivateKey::generate(Algorithm::Es256, &random)).await.unwrap();
        let old = keys.signing().await.unwrap().kid;
        keys.rotate().await.unwrap();
        assert!(keys.get(&old).await.unwrap().is_some());
        instance_oauth_keys::revoke(&db, &old).await.unwrap();
        assert!(keys.get(&old).await.unwrap().is_none());
        assert_eq!(keys.get_for_revocation(&old).await.unwrap().unwrap().kid, old);
        assert_ne!(keys.signing().await.unwrap().kid, old);
    }
}
