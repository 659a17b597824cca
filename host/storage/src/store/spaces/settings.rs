//! The settings of a space, which its administrators change.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::spaces::access::Policy;
use belvedere_protocol::spaces::app_gate::AppAccess;
use belvedere_protocol::spaces::config::SpaceConfig;
use belvedere_protocol::spaces::r10::policy;
use serde_json::Value;

use super::super::{Db, Patch, StoreError};
use super::columns::SpaceId;
use super::credentials::{REVOKE_OF_SETTINGS, Revoked};
use super::transaction::with_space;

/// The settings of a space.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub display_name: Option<String>,
    pub description: Option<String>,
    pub read_policy: Policy,
    pub write_policy: Policy,
    pub app_access: AppAccess,
    pub config: SpaceConfig,
}

impl Settings {
    /// The settings of a space of another host: only that host knows them, and here nothing may depend on them.
    pub fn unknown() -> Self {
        Self {
            display_name: None,
            description: None,
            read_policy: Policy::MemberList,
            write_policy: Policy::MemberList,
            app_access: AppAccess::AllowList(Vec::new()),
            config: SpaceConfig::default(),
        }
    }
}

/// A change of the settings.
#[derive(Clone, Debug, Default)]
pub struct SettingsChange {
    pub display_name: Patch<String>,
    pub description: Patch<String>,
    pub read_policy: Option<Policy>,
    pub write_policy: Option<Policy>,
    pub app_access: Option<AppAccess>,
    pub config: Option<SpaceConfig>,
}

/// Changes the settings of a space that is not deleted. Returns the credentials that were revoked because its read policy or
/// the list of its apps is another one now; `None` when there is no such space.
pub async fn update(
    db: &Db,
    id: SpaceId,
    change: &SettingsChange,
    now: Timestamp,
) -> Result<Option<Vec<Revoked>>, StoreError> {
    let sql = "UPDATE spaces SET display_name = CASE WHEN $2 THEN $3 ELSE display_name END, \
                   description = CASE WHEN $4 THEN $5 ELSE description END, read_policy = coalesce($6, read_policy), \
                   write_policy = coalesce($7, write_policy), app_access = coalesce($8, app_access), \
                   config = coalesce($9, config), updated_at = $10 \
               WHERE id = $1";
    let policy_text =
        |policy: &Option<Policy>| policy.as_ref().map(|policy| policy::policy_json(policy).to_string());
    let config = change.config.as_ref().map(|config| Value::Object(config.as_json().clone()).to_string());
    let read_policy = policy_text(&change.read_policy);
    let app_access = change.app_access.as_ref().map(|access| policy::app_access_json(access).to_string());
    // A credential that is issued meanwhile holds the space too.
    with_space!(db, id, |tx, locked| {
        if locked.is_none() {
            return Ok(None);
        }
        let revoke = sqlx::query_as(REVOKE_OF_SETTINGS).bind(id).bind(now).bind(&read_policy);
        let revoked = revoke.bind(&app_access).fetch_all(&mut *tx).await?;
        sqlx::query(sql)
            .bind(id)
            .bind(change.display_name.is_set())
            .bind(change.display_name.value())
            .bind(change.description.is_set())
            .bind(change.description.value())
            .bind(&read_policy)
            .bind(policy_text(&change.write_policy))
            .bind(&app_access)
            .bind(&config)
            .bind(now)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(Some(revoked))
    })
}
