//! Spaces, by their address and in lists.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Nsid, RecordKey, Tid};
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::config::SpaceConfig;
use belvedere_protocol::spaces::r10::policy;
use serde_json::Value;

use super::super::{Db, StoreError, hot, in_transaction, intern, on};
use super::columns::{self, SpaceId, corrupt};
use super::credentials::Opening;
use super::settings::Settings;

/// A space.
#[derive(Clone, Debug, PartialEq)]
pub struct SpaceRow {
    pub id: SpaceId,
    pub uri: SpaceUri,
    pub creator: Did,
    /// Whether this instance is the authority. Otherwise `settings` are [`Settings::unknown`].
    pub is_hosted: bool,
    pub settings: Settings,
    /// The rev of the last tracked write; `None` before the first.
    pub rev: Option<Tid>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Since then the space answers that it is deleted, and nothing of it may be shown.
    pub deleted_at: Option<Timestamp>,
}

#[derive(sqlx::FromRow)]
struct Raw {
    id: SpaceId,
    did: String,
    kind: String,
    skey: String,
    creator_did: String,
    is_hosted: bool,
    display_name: Option<String>,
    description: Option<String>,
    read_policy: String,
    write_policy: String,
    app_access: String,
    config: String,
    rev: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
    deleted_at: Option<Timestamp>,
}

impl Raw {
    fn read(self) -> Result<SpaceRow, StoreError> {
        let json = |column: &str, text: &str| -> Result<Value, StoreError> {
            serde_json::from_str(text).map_err(|error| corrupt(column, error))
        };
        let policy_of = |column: &str, text: &str| {
            policy::policy(&json(column, text)?).map_err(|error| corrupt(column, error))
        };
        let app_access = policy::app_access(&json("spaces.app_access", &self.app_access)?);
        let Value::Object(config) = json("spaces.config", &self.config)? else {
            return Err(corrupt("spaces.config", "it is not an object"));
        };
        let uri = SpaceUri {
            did: columns::did("spaces.did", &self.did)?,
            kind: Nsid::try_from(self.kind.as_str()).map_err(|error| corrupt("spaces.kind", error))?,
            skey: RecordKey::try_from(self.skey.as_str()).map_err(|error| corrupt("spaces.skey", error))?,
        };
        Ok(SpaceRow {
            id: self.id,
            uri,
            creator: columns::did("spaces.creator_did", &self.creator_did)?,
            is_hosted: self.is_hosted,
            settings: Settings {
                display_name: self.display_name,
                description: self.description,
                read_policy: policy_of("spaces.read_policy", &self.read_policy)?,
                write_policy: policy_of("spaces.write_policy", &self.write_policy)?,
                app_access: app_access.map_err(|error| corrupt("spaces.app_access", error))?,
                config: SpaceConfig::parse(config).map_err(|error| corrupt("spaces.config", error))?,
            },
            rev: self.rev.map(|rev| columns::tid("spaces.rev", &rev)).transpose()?,
            created_at: self.created_at,
            updated_at: self.updated_at,
            deleted_at: self.deleted_at,
        })
    }
}

macro_rules! select {
    ($tail:literal) => {
        select!("", $tail)
    };
    ($more:literal, $tail:literal) => {
        concat!(
            "SELECT s.id, s.did, s.kind, s.skey, s.creator_did, s.is_hosted, s.display_name, s.description, s.read_policy, \
                 s.write_policy, s.app_access, s.config, s.rev, s.created_at, s.updated_at, s.deleted_at",
            $more,
            " FROM spaces s ",
            $tail
        )
    };
}

/// Creates a space that this instance hosts, with its creator as a member who reads and writes everything. `None` when the
/// space exists, or existed: credentials for a deleted one would open its successor.
///
/// A space that was added as one of another host becomes hosted. The repos in it stay; its list of repos has each from its next
/// write on.
pub async fn create(
    db: &Db,
    uri: &SpaceUri,
    creator: &Did,
    settings: &Settings,
    now: Timestamp,
) -> Result<Option<SpaceId>, StoreError> {
    // So that the stream reports when the account is deleted.
    intern::did_ids(db, std::iter::once(creator)).await?;
    insert(db, uri, creator, true, settings, now).await
}

/// The space at an address whose authority is another host. It is added when it is not known yet, and the authority counts as
/// its creator. `None` when it is deleted.
pub async fn of_other_host(db: &Db, uri: &SpaceUri, now: Timestamp) -> Result<Option<SpaceId>, StoreError> {
    let find = async || -> Result<Option<SpaceRow>, StoreError> { get(db, uri).await };
    if let Some(space) = find().await? {
        return Ok(space.deleted_at.is_none().then_some(space.id));
    }
    if let Some(id) = insert(db, uri, &uri.did, false, &Settings::unknown(), now).await? {
        return Ok(Some(id));
    }
    // Another call has added it.
    Ok(find().await?.filter(|space| space.deleted_at.is_none()).map(|space| space.id))
}

/// Deletes the rows that exist only while another host has the space, with the copies of repos.
const OF_OTHER_HOST: [&str; 8] = [
    "DELETE FROM space_records WHERE space_id = $1 AND author IN \
         (SELECT author FROM space_repos WHERE space_id = $1 AND copied_bytes IS NOT NULL)",
    "DELETE FROM space_blobs WHERE space_id = $1 AND author IN \
         (SELECT author FROM space_repos WHERE space_id = $1 AND copied_bytes IS NOT NULL)",
    "DELETE FROM space_repos WHERE space_id = $1 AND copied_bytes IS NOT NULL",
    "DELETE FROM space_follows WHERE space_id = $1",
    "DELETE FROM space_followers WHERE space_id = $1",
    "DELETE FROM space_writers WHERE space_id = $1",
    "DELETE FROM space_deliveries WHERE space_id = $1",
    "DELETE FROM space_registrations WHERE space_id = $1",
];

async fn insert(
    db: &Db,
    uri: &SpaceUri,
    creator: &Did,
    is_hosted: bool,
    settings: &Settings,
    now: Timestamp,
) -> Result<Option<SpaceId>, StoreError> {
    let space = "INSERT INTO spaces (did, kind, skey, creator_did, is_hosted, display_name, description, read_policy, \
                     write_policy, app_access, config, created_at, updated_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12) \
                 ON CONFLICT (did, kind, skey) DO UPDATE SET creator_did = excluded.creator_did, \
                     is_hosted = excluded.is_hosted, display_name = excluded.display_name, \
                     description = excluded.description, read_policy = excluded.read_policy, \
                     write_policy = excluded.write_policy, app_access = excluded.app_access, config = excluded.config, \
                     created_at = excluded.created_at, updated_at = excluded.updated_at \
                 WHERE excluded.is_hosted AND NOT spaces.is_hosted AND spaces.deleted_at IS NULL RETURNING id";
    let member = "INSERT INTO space_members (space_id, member, reads, writes, granted_by, created_at, updated_at) \
                  VALUES ($1, $2, 'everything', $3, $2, $4, $4)";
    let config = Value::Object(settings.config.as_json().clone()).to_string();
    Ok(in_transaction!(db, |tx| {
        let id: Option<SpaceId> = sqlx::query_scalar(space)
            .bind(uri.did.as_str())
            .bind(uri.kind.as_str())
            .bind(uri.skey.as_str())
            .bind(creator.as_str())
            .bind(is_hosted)
            .bind(&settings.display_name)
            .bind(&settings.description)
            .bind(policy::policy_json(&settings.read_policy).to_string())
            .bind(policy::policy_json(&settings.write_policy).to_string())
            .bind(policy::app_access_json(&settings.app_access).to_string())
            .bind(&config)
            .bind(now)
            .fetch_optional(&mut *tx)
            .await?;
        if let Some(id) = id.filter(|_| is_hosted) {
            for sql in OF_OTHER_HOST {
                sqlx::query(sql).bind(id).execute(&mut *tx).await?;
            }
            let query = sqlx::query(member).bind(id).bind(creator.as_str()).bind(true).bind(now);
            query.execute(&mut *tx).await?;
        }
        id
    }))
}

/// A space by its address, deleted or not.
pub async fn get(db: &Db, uri: &SpaceUri) -> Result<Option<SpaceRow>, StoreError> {
    let sql = select!("WHERE s.did = $1 AND s.kind = $2 AND s.skey = $3");
    let row: Option<Raw> = hot!(db, |pool| {
        sqlx::query_as(sql)
            .bind(uri.did.as_str())
            .bind(uri.kind.as_str())
            .bind(uri.skey.as_str())
            .fetch_optional(pool)
            .await
    })?;
    row.map(Raw::read).transpose()
}

/// The space at an address, and what decides whether a credential opens it.
pub async fn with_credential(
    db: &Db,
    uri: &SpaceUri,
    jti: &str,
) -> Result<Option<(SpaceRow, Opening)>, StoreError> {
    #[derive(sqlx::FromRow)]
    struct Opened {
        #[sqlx(flatten)]
        space: Raw,
        is_revoked: bool,
    }
    let sql = select!(
        ", EXISTS (SELECT 1 FROM space_credentials c WHERE c.space_id = s.id AND c.jti = $4 AND c.revoked_at IS NOT NULL) AS is_revoked",
        "WHERE s.did = $1 AND s.kind = $2 AND s.skey = $3"
    );
    let row: Option<Opened> = hot!(db, |pool| {
        sqlx::query_as(sql)
            .bind(uri.did.as_str())
            .bind(uri.kind.as_str())
            .bind(uri.skey.as_str())
            .bind(jti)
            .fetch_optional(pool)
            .await
    })?;
    let read = |Opened { space, is_revoked }| -> Result<_, StoreError> {
        let space = space.read()?;
        let (is_hosted, is_deleted) = (space.is_hosted, space.deleted_at.is_some());
        Ok((space, Opening { is_hosted, is_deleted, is_revoked }))
    };
    row.map(read).transpose()
}

/// A space by its number, deleted or not.
pub async fn by_id(db: &Db, id: SpaceId) -> Result<Option<SpaceRow>, StoreError> {
    let sql = select!("WHERE s.id = $1");
    let row: Option<Raw> = on!(db, reader, |pool| sqlx::query_as(sql).bind(id).fetch_optional(pool).await)?;
    row.map(Raw::read).transpose()
}

/// The space of the invite with a token, unless it is deleted. `token_hash`: SHA-256 of the token.
pub async fn of_invite(db: &Db, token_hash: &[u8; 32]) -> Result<Option<SpaceRow>, StoreError> {
    let sql =
        select!("JOIN space_invites i ON i.space_id = s.id WHERE i.token_hash = $1 AND s.deleted_at IS NULL");
    let row: Option<Raw> = on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(token_hash.as_slice()).fetch_optional(pool).await
    })?;
    row.map(Raw::read).transpose()
}

/// The number of hosted spaces that an account has created and not deleted.
pub async fn count_of_creator(db: &Db, did: &Did) -> Result<u64, StoreError> {
    let sql = "SELECT count(*) FROM spaces WHERE creator_did = $1 AND is_hosted AND deleted_at IS NULL";
    let count: i64 =
        on!(db, reader, |pool| sqlx::query_scalar(sql).bind(did.as_str()).fetch_one(pool).await)?;
    Ok(count.max(0) as u64)
}

/// The number of spaces of other hosts in which an account has a repo here.
pub async fn count_of_author(db: &Db, did: &Did) -> Result<u64, StoreError> {
    let sql = "SELECT count(*) FROM space_repos p JOIN spaces s ON s.id = p.space_id \
               WHERE p.author = $1 AND p.copied_bytes IS NULL AND NOT s.is_hosted AND s.deleted_at IS NULL";
    let count: i64 =
        on!(db, reader, |pool| sqlx::query_scalar(sql).bind(did.as_str()).fetch_one(pool).await)?;
    Ok(count.max(0) as u64)
}

/// A page of all spaces that are not deleted, in the order of their creation. `of`: only those whose authority or creator is
/// this account. `after`: the last one of the page before.
pub async fn page(
    db: &Db,
    of: Option<&Did>,
    after: Option<SpaceId>,
    limit: u32,
) -> Result<Vec<SpaceRow>, StoreError> {
    let sql = match of {
        None => select!("WHERE $1 = '' AND s.deleted_at IS NULL AND s.id > $2 ORDER BY s.id LIMIT $3"),
        Some(_) => {
            select!(
                "WHERE (s.did = $1 OR s.creator_did = $1) AND s.deleted_at IS NULL AND s.id > $2 ORDER BY s.id LIMIT $3"
            )
        }
    };
    let (of, after) = (of.map_or("", Did::as_str), after.unwrap_or(SpaceId(0)));
    let rows: Vec<Raw> = on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(of).bind(after).bind(i64::from(limit)).fetch_all(pool).await
    })?;
    rows.into_iter().map(Raw::read).collect()
}

/// A page of the spaces of an account that are not deleted: those it created, is a member of (also through other spaces), or
/// has a repo in, and those of other hosts that are followed for it.
pub async fn of_account(
    db: &Db,
    did: &Did,
    after: Option<SpaceId>,
    limit: u32,
) -> Result<Vec<SpaceRow>, StoreError> {
    let after = after.unwrap_or(SpaceId(0));
    let rows: Vec<Raw> = on!(db, reader, |pool| {
        sqlx::query_as(OF_ACCOUNT).bind(did.as_str()).bind(after).bind(i64::from(limit)).fetch_all(pool).await
    })?;
    rows.into_iter().map(Raw::read).collect()
}

/// The depth is that of [`super::delegation`]. The recursion ends after 10,000 memberships, so that spaces that include each
/// other can't make it long; an account that has more sees only some of its spaces.
const OF_ACCOUNT: &str = concat!(
    "WITH RECURSIVE mine (id, depth) AS (SELECT space_id, 0 FROM space_members WHERE member = $1 \
         UNION SELECT m.space_id, mine.depth + 1 FROM mine JOIN space_members m ON m.target_id = mine.id \
             WHERE mine.depth < 10) ",
    select!(
        "WHERE s.deleted_at IS NULL AND s.id > $2 AND s.id IN (\
             SELECT id FROM (SELECT id FROM mine LIMIT 10000) AS members \
             UNION SELECT id FROM spaces WHERE creator_did = $1 AND is_hosted \
             UNION SELECT space_id FROM space_repos WHERE author = $1 \
             UNION SELECT space_id FROM space_followers WHERE did = $1) ORDER BY s.id LIMIT $3"
    )
);
