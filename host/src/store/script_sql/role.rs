//! The role that scripts' SQL runs under on PostgreSQL: a login of its own, which may read the views and own the scripts'
//! tables, and nothing else. A statement that got past the guard would find nothing to read.
//!
//! It is a login and not a `SET ROLE`, because a session can always go back from that: `set_config('role', …)` is a
//! function as any other. `migrate` and each start make the role and its rights; each new connection proves that it has no
//! others before it runs anything ([`proof`]).

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::{OWN_SCHEMA, VIEW_SCHEMA};
use crate::crypto::hash::sha256_hex;

/// What follows the database's name in the role's: roles belong to a whole server, the role to one database.
const SUFFIX: &str = "_scripts";
/// PostgreSQL cuts longer names.
const MAX_NAME: usize = 63;
/// Marks a role as made by us: one that was there before is never changed.
const MARK: &str = "Belvedere: scripts' SQL";
/// What the sorts and hash tables of one session may have on the database's disk; a page's worth of rows is a hundredth.
const TEMPORARY_FILES: &str = "128MB";
/// Hosts that start together make the role one after the other.
const LOCK: i64 = 0x0042_454c_5653_5153;

/// How scripts' SQL gets to PostgreSQL.
#[derive(Clone)]
pub enum Access {
    /// As a role that is made at the start. Without a password only where the server asks for none.
    Own { password: Option<String> },
    /// As a role that the operator made: an address with its name and password.
    Given { url: String },
    /// As the server's own role: the guard is the only wall.
    Guarded,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Own { .. } => "Own",
            Self::Given { .. } => "Given",
            Self::Guarded => "Guarded",
        })
    }
}

/// Why scripts have no role of their own.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NoRole {
    #[error("the server's role {server} may not make roles")]
    MayNotMake { server: String },
    #[error("there is a role {0} that this server did not make")]
    NotOurs(String),
    #[error("there is no role {0}")]
    Missing(String),
    #[error("SCRIPT_DATABASE_URL {0}")]
    Address(&'static str),
    /// It could do more than it should, or less.
    #[error("the role {role} {offence}")]
    Unfit { role: String, offence: String },
    #[error("the role {role} can't be used: {reason}")]
    Unusable { role: String, reason: String },
}

/// The role of a database, and how to log in as it.
#[derive(Clone)]
pub(in crate::store) struct Role {
    name: String,
    password: Option<String>,
    /// Made by the operator.
    is_given: bool,
    pub(super) options: PgConnectOptions,
}

impl std::fmt::Debug for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Role").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A name as PostgreSQL reads it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn name_for(database: &str) -> String {
    let name = format!("{database}{SUFFIX}");
    if name.len() <= MAX_NAME { name } else { format!("{}{SUFFIX}", &sha256_hex(database.as_bytes())[..32]) }
}

impl Role {
    /// The role for a database; `None` when the guard shall be the only wall. `options` are the server's own.
    pub(in crate::store) fn of(
        access: &Access,
        database: &str,
        options: &PgConnectOptions,
    ) -> Result<Option<Self>, NoRole> {
        match access {
            Access::Guarded => Ok(None),
            Access::Own { password } => {
                let name = name_for(database);
                let mut options = options.clone().username(&name).database(database);
                // An empty one, so that the server's is not tried.
                options = options.password(password.as_deref().unwrap_or_default());
                Ok(Some(Self { name, password: password.clone(), is_given: false, options }))
            }
            Access::Given { url } => {
                let parsed = url::Url::parse(url).map_err(|_| NoRole::Address("is malformed"))?;
                let name = parsed.username().to_owned();
                if name.is_empty() || name == options.get_username() {
                    return Err(NoRole::Address("has to name a role other than the server's"));
                }
                let password = parsed.password().unwrap_or_default().to_owned();
                let decoded =
                    percent_encoding::percent_decode_str(&password).decode_utf8_lossy().into_owned();
                let mut own = options.clone().username(&name).password(&decoded).database(database);
                if let Some(host) = parsed.host_str() {
                    own = own.host(host);
                }
                if let Some(port) = parsed.port() {
                    own = own.port(port);
                }
                Ok(Some(Self { name, password: None, is_given: true, options: own }))
            }
        }
    }

    pub(in crate::store) fn name(&self) -> &str {
        &self.name
    }

    /// Makes the role, if it may be made, and gives it its rights. `connection` is the server's own.
    pub(in crate::store) async fn prepare(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Result<(), NoRole>, sqlx::Error> {
        let mut tx = connection.begin().await?;
        sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *tx).await?;
        let (server, may_make): (String, bool) = sqlx::query_as(
            "SELECT rolname::text, rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user",
        )
        .fetch_one(&mut *tx)
        .await?;
        let mark: Option<Option<String>> =
            sqlx::query_scalar("SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = $1")
                .bind(&self.name)
                .fetch_optional(&mut *tx)
                .await?;
        let role = quoted(&self.name);
        let password = self.password.as_deref().map(|p| format!(" PASSWORD '{}'", p.replace('\'', "''")));
        let password = password.unwrap_or_default();
        match mark {
            None if self.is_given => return Ok(Err(NoRole::Missing(self.name.clone()))),
            None if !may_make => return Ok(Err(NoRole::MayNotMake { server })),
            None => {
                let make = format!(
                    "CREATE ROLE {role} LOGIN NOINHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION{password}"
                );
                execute(&mut tx, make).await?;
                execute(&mut tx, format!("COMMENT ON ROLE {role} IS '{}'", MARK.replace('\'', "''"))).await?;
            }
            Some(_) if self.is_given => {}
            Some(mark) if mark.as_deref() != Some(MARK) => {
                return Ok(Err(NoRole::NotOurs(self.name.clone())));
            }
            // The secret that it is derived from may be another one by now.
            Some(_) if may_make && !password.is_empty() => {
                execute(&mut tx, format!("ALTER ROLE {role}{password}")).await?;
            }
            Some(_) => {}
        }
        if may_make && !self.is_given && may_bound_files(&mut tx).await? {
            execute(&mut tx, format!("ALTER ROLE {role} SET temp_file_limit = '{TEMPORARY_FILES}'")).await?;
        }
        self.give_rights(&mut tx, &role, may_make).await?;
        tx.commit().await?;
        Ok(Ok(()))
    }

    async fn give_rights(
        &self,
        tx: &mut PgConnection,
        role: &str,
        may_make: bool,
    ) -> Result<(), sqlx::Error> {
        const IS_MEMBER: &str = "SELECT pg_has_role(current_user, $1, 'MEMBER')";
        let mut is_member: bool = sqlx::query_scalar(IS_MEMBER).bind(&self.name).fetch_one(&mut *tx).await?;
        if !is_member && may_make {
            // To hand tables over to a role one has to be a member of it. Its rights are among the server's anyway.
            execute(tx, format!("GRANT {role} TO CURRENT_USER")).await?;
            is_member = true;
        }
        for grant in [
            format!("GRANT USAGE ON SCHEMA {VIEW_SCHEMA} TO {role}"),
            format!("GRANT SELECT ON ALL TABLES IN SCHEMA {VIEW_SCHEMA} TO {role}"),
            format!("GRANT USAGE, CREATE ON SCHEMA {OWN_SCHEMA} TO {role}"),
        ] {
            execute(tx, grant).await?;
        }
        // Tables that were made under the server's role.
        let tables: Vec<String> = sqlx::query_scalar(
            "SELECT c.relname::text FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner \
             WHERE c.relnamespace = $1::text::regnamespace AND c.relkind = 'r' AND r.rolname = current_user",
        )
        .bind(OWN_SCHEMA)
        .fetch_all(&mut *tx)
        .await?;
        for table in tables {
            let table = format!("{OWN_SCHEMA}.{}", quoted(&table));
            let sql = if is_member {
                format!("ALTER TABLE {table} OWNER TO {role}")
            } else {
                format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {role}")
            };
            execute(tx, sql).await?;
        }
        Ok(())
    }
}

/// Whether the server's role may bound what statements keep in temporary files: superusers may, and since PostgreSQL 15
/// whoever was granted it.
async fn may_bound_files(tx: &mut PgConnection) -> Result<bool, sqlx::Error> {
    const IS_SUPERUSER: &str = "SELECT rolsuper FROM pg_roles WHERE rolname = current_user";
    const MAY_SET: &str = "SELECT has_parameter_privilege('temp_file_limit', 'SET')";
    const GRANTS_PARAMETERS: i32 = 150_000;
    let version: i32 = sqlx::query_scalar("SELECT current_setting('server_version_num')::integer")
        .fetch_one(&mut *tx)
        .await?;
    let ask = if version >= GRANTS_PARAMETERS { MAY_SET } else { IS_SUPERUSER };
    sqlx::query_scalar(ask).fetch_one(tx).await
}

async fn execute(connection: &mut PgConnection, sql: String) -> Result<(), sqlx::Error> {
    sqlx::query(AssertSqlSafe(sql)).execute(connection).await.map(drop)
}

/// What the role of a connection may do that it should not, or may not do that it should; NULL when there is nothing. Extensions give everybody views
/// and functions of their own, which know who asks.
pub(super) fn proof() -> String {
    let known = format!("'pg_catalog', 'information_schema', '{VIEW_SCHEMA}', '{OWN_SCHEMA}'");
    format!(
        "WITH me AS (SELECT * FROM pg_catalog.pg_roles WHERE rolname = session_user), \
         relations AS ( \
             SELECT c.oid::regclass::text AS name FROM pg_catalog.pg_class c \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ({known}) \
                 AND n.nspname NOT LIKE 'pg\\_%' \
                 AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e') \
                 AND (has_table_privilege(c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER') \
                     OR has_any_column_privilege(c.oid, 'SELECT, INSERT, UPDATE, REFERENCES')) LIMIT 1), \
         schemas AS ( \
             SELECT n.nspname::text AS name FROM pg_catalog.pg_namespace n \
             WHERE n.nspname <> '{OWN_SCHEMA}' AND n.nspname NOT LIKE 'pg\\_temp\\_%' \
                 AND has_schema_privilege(n.oid, 'CREATE') LIMIT 1), \
         functions AS ( \
             SELECT p.oid::regprocedure::text AS name FROM pg_catalog.pg_proc p \
             WHERE has_function_privilege(p.oid, 'EXECUTE') \
                 AND (p.prosecdef OR p.proname IN ('pg_read_file', 'pg_read_binary_file', 'pg_ls_dir', 'lo_import', 'lo_export')) \
                 AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e') LIMIT 1) \
         SELECT CASE \
             WHEN rolsuper THEN 'is a superuser' \
             WHEN rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls THEN 'may do what scripts may not' \
             WHEN session_user <> current_user THEN 'is not who it logged in as' \
             WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_auth_members m WHERE m.member = me.oid) \
                 THEN 'is a member of other roles' \
             WHEN has_database_privilege(current_database(), 'CREATE') THEN 'may make schemas' \
             WHEN EXISTS (SELECT 1 FROM relations) THEN 'may use the table ' || (SELECT name FROM relations) \
             WHEN EXISTS (SELECT 1 FROM schemas) THEN 'may make objects in the schema ' || (SELECT name FROM schemas) \
             WHEN EXISTS (SELECT 1 FROM functions) THEN 'may call ' || (SELECT name FROM functions) \
             WHEN NOT has_schema_privilege('{VIEW_SCHEMA}', 'USAGE') \
                 OR NOT has_table_privilege('{VIEW_SCHEMA}.records', 'SELECT') \
                 OR NOT has_schema_privilege('{OWN_SCHEMA}', 'USAGE, CREATE') \
                 THEN 'has not the rights that it needs: belvedere migrate gives them' \
         END FROM me"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_database_has_a_role_of_its_own() {
        assert_eq!(name_for("belvedere"), "belvedere_scripts");
        let (a, b) = (name_for(&"a".repeat(60)), name_for(&format!("{}b", "a".repeat(59))));
        assert!(a != b && a.len() <= MAX_NAME && b.len() <= MAX_NAME);
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    }

    #[test]
    fn an_address_names_another_role() {
        let server = PgConnectOptions::new_without_pgpass().username("belvedere").host("db");
        let of = |url: &str| Role::of(&Access::Given { url: url.to_owned() }, "x", &server);
        let role = of("postgres://lua:p%40ss@other:6000/x").unwrap().unwrap();
        assert_eq!((role.name(), role.options.get_host(), role.options.get_port()), ("lua", "other", 6000));
        for bad in ["postgres://belvedere:x@db/x", "postgres://db/x", "lua"] {
            assert!(matches!(of(bad), Err(NoRole::Address(_))), "{bad}");
        }
        assert!(Role::of(&Access::Guarded, "x", &server).unwrap().is_none());
        assert!(!format!("{:?}", of("postgres://lua:secret@db/x")).contains("secret"));
    }
}
