//! Stores the identity under which other servers know the instance: at most one row. Keys are sealed; this module never
//! handles a plain key.

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on};

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct IdentityRow {
    /// `did_web`, `did_plc`, `attach_account` or `not_exposed`.
    pub mode: String,
    pub did: Option<String>,
    /// The sealed key with which the instance signs.
    pub signing_key: Option<Vec<u8>>,
    /// The sealed key that signs operations of the PLC directory.
    pub rotation_key: Option<Vec<u8>>,
    pub attached_account_did: Option<String>,
    /// The session with the attached account's PDS, by which its DID document is changed.
    pub attached_session_id: Option<String>,
    pub setup_complete: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The identity; `None` for an instance that was never set up.
pub async fn get(db: &Db) -> Result<Option<IdentityRow>, StoreError> {
    let sql = "SELECT mode, did, signing_key, rotation_key, attached_account_did, attached_session_id, \
                      setup_complete, created_at, updated_at FROM service_identity";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).fetch_optional(pool).await)?)
}

/// Creates or replaces the identity. `first_entry` (fragment and type) is stored as a service entry when there is no
/// entry, and the identity was not one of the instance's own before.
pub async fn put(
    db: &Db,
    identity: &IdentityRow,
    first_entry: Option<(&str, &str)>,
) -> Result<(), StoreError> {
    let add = "INSERT INTO service_entries (fragment_id, service_type, access_mode, created_at, updated_at) \
               SELECT $1, $2, 'all', $3, $3 WHERE NOT EXISTS (SELECT 1 FROM service_entries) \
               AND NOT EXISTS (SELECT 1 FROM service_identity WHERE mode IN ('did_web', 'did_plc'))";
    let put = "INSERT INTO service_identity (singleton, mode, did, signing_key, rotation_key, \
                   attached_account_did, attached_session_id, setup_complete, created_at, updated_at) \
               VALUES (1, $1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (singleton) DO UPDATE SET \
                   mode = excluded.mode, did = excluded.did, signing_key = excluded.signing_key, \
                   rotation_key = excluded.rotation_key, attached_account_did = excluded.attached_account_did, \
                   attached_session_id = excluded.attached_session_id, \
                   setup_complete = excluded.setup_complete, updated_at = excluded.updated_at";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        if let Some((fragment, service_type)) = first_entry {
            let query = sqlx::query(add).bind(fragment).bind(service_type).bind(identity.updated_at);
            query.execute(&mut *tx).await?;
        }
        sqlx::query(put)
            .bind(&identity.mode)
            .bind(&identity.did)
            .bind(&identity.signing_key)
            .bind(&identity.rotation_key)
            .bind(&identity.attached_account_did)
            .bind(&identity.attached_session_id)
            .bind(identity.setup_complete)
            .bind(identity.created_at)
            .bind(identity.updated_at)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
    });
    Ok(())
}

/// Sets the DID of an identity that has none yet; `false` when it has one, or there is no identity.
pub async fn set_did(db: &Db, did: &str, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE service_identity SET did = $1, updated_at = $2 WHERE did IS NULL";
    Ok(on!(db, writer, |pool| sqlx::query(sql).bind(did).bind(now).execute(pool).await?.rows_affected()) > 0)
}

/// Keeps a session with the PDS of the attached account; `false` when the account is not the attached one.
pub async fn set_session(db: &Db, account: &str, session_id: &str) -> Result<bool, StoreError> {
    let sql = "UPDATE service_identity SET attached_session_id = $2 \
               WHERE mode = 'attach_account' AND attached_account_did = $1";
    let changed = on!(db, writer, |pool| {
        sqlx::query(sql).bind(account).bind(session_id).execute(pool).await?.rows_affected()
    });
    Ok(changed > 0)
}

/// Ends the set-up; `false` when there is no identity.
pub async fn complete(db: &Db, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE service_identity SET setup_complete = TRUE, updated_at = $1";
    Ok(on!(db, writer, |pool| sqlx::query(sql).bind(now).execute(pool).await?.rows_affected()) > 0)
}
