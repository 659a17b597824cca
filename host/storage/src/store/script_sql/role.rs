//! Creates and checks the PostgreSQL role of scripts' SQL. The role may read the views and own the scripts' tables,
//! nothing else, so a statement that bypasses the guard still can't read the server's tables.
//!
//! The connections log in as the role. `SET ROLE` would not do, because a session can always undo it, even with a
//! function (`set_config('role', …)`). `migrate` and each start create the role and grant its rights. Each new
//! connection checks that the role has no other rights before it runs a statement ([`role_check`]).

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};

use super::{OWN_SCHEMA, VIEW_SCHEMA};
use crate::store::definitions::run;
use belvedere_protocol::crypto::hash::sha256_hex;

/// The role's name is the database's name with this suffix: roles belong to the PostgreSQL server, but each database
/// needs one of its own.
const SUFFIX: &str = "_scripts";
/// Longest name of a role, in bytes. PostgreSQL truncates longer names.
const MAX_NAME: usize = 63;
/// The comment of a role that this server created. Roles without it are never changed.
const ROLE_COMMENT: &str = "Belvedere: scripts' SQL";
/// `temp_file_limit` of the role: disk space for the sorts and hash tables of one session. A page of rows needs about a
/// hundredth of it.
const TEMP_FILE_LIMIT: &str = "128MB";
/// Key of the advisory lock that keeps hosts from creating the role at the same time.
const ADVISORY_LOCK: i64 = 0x0042_454c_5653_5153;

/// The role under which scripts' SQL runs on PostgreSQL.
#[derive(Clone)]
pub enum ScriptRole {
    /// A role that this server creates at startup. `None` if PostgreSQL needs no password.
    Own { password: Option<String> },
    /// A role that the operator created. The URL contains its name and password.
    Given { url: String },
    /// The server's own role: only the guard protects the server's tables.
    Guarded,
}

impl std::fmt::Debug for ScriptRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Own { .. } => "Own",
            Self::Given { .. } => "Given",
            Self::Guarded => "Guarded",
        })
    }
}

/// The reason why the role of scripts' SQL can't be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RoleError {
    #[error("the server's role {server} can't create roles")]
    MayNotMake { server: String },
    #[error("the role {0} exists, but this server did not create it")]
    NotOurs(String),
    #[error("the role {0} does not exist")]
    Missing(String),
    #[error("SCRIPT_DATABASE_URL {0}")]
    Address(&'static str),
    /// The role has excess rights, or lacks some.
    #[error("the role {role} {excess}")]
    Unfit { role: String, excess: String },
    #[error("the role {role} can't be used: {reason}")]
    Unusable { role: String, reason: String },
}

/// The role of a database, and the options to log in as it.
#[derive(Clone)]
pub(in crate::store) struct Role {
    name: String,
    password: Option<String>,
    /// The operator created the role.
    is_operators: bool,
    pub(super) options: PgConnectOptions,
}

impl std::fmt::Debug for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Role").field("name", &self.name).finish_non_exhaustive()
    }
}

/// An SQL identifier in quotes.
pub(in crate::store) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn role_name(database: &str) -> String {
    let name = format!("{database}{SUFFIX}");
    if name.len() <= MAX_NAME { name } else { format!("{}{SUFFIX}", &sha256_hex(database.as_bytes())[..32]) }
}

impl Role {
    /// The role for a database; `None` for [`ScriptRole::Guarded`]. `options` are the server's own.
    pub(in crate::store) fn of(
        access: &ScriptRole,
        database: &str,
        options: &PgConnectOptions,
    ) -> Result<Option<Self>, RoleError> {
        match access {
            ScriptRole::Guarded => Ok(None),
            ScriptRole::Own { password } => {
                let name = role_name(database);
                let mut options = options.clone().username(&name).database(database);
                // Without a password an empty one, so that sqlx does not send the server's.
                options = options.password(password.as_deref().unwrap_or_default());
                Ok(Some(Self { name, password: password.clone(), is_operators: false, options }))
            }
            ScriptRole::Given { url } => {
                let parsed = url::Url::parse(url).map_err(|_| RoleError::Address("is malformed"))?;
                let name = parsed.username().to_owned();
                if name.is_empty() || name == options.get_username() {
                    return Err(RoleError::Address("has to name a role other than the server's"));
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
                Ok(Some(Self { name, password: None, is_operators: true, options: own }))
            }
        }
    }

    pub(in crate::store) fn name(&self) -> &str {
        &self.name
    }

    /// Creates the role if it is missing and the server's role can create it, and grants its rights. `connection` is
    /// the server's own. The inner error says why the role can't be used.
    pub(in crate::store) async fn prepare(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Result<(), RoleError>, sqlx::Error> {
        let mut tx = connection.begin().await?;
        sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(ADVISORY_LOCK).execute(&mut *tx).await?;
        let (server, can_create_roles): (String, bool) = sqlx::query_as(
            "SELECT rolname::text, rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user",
        )
        .fetch_one(&mut *tx)
        .await?;
        let comment: Option<Option<String>> =
            sqlx::query_scalar("SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = $1")
                .bind(&self.name)
                .fetch_optional(&mut *tx)
                .await?;
        let role = quoted(&self.name);
        let password = self.password.as_deref().map(|p| format!(" PASSWORD '{}'", p.replace('\'', "''")));
        let password = password.unwrap_or_default();
        match comment {
            None if self.is_operators => return Ok(Err(RoleError::Missing(self.name.clone()))),
            None if !can_create_roles => return Ok(Err(RoleError::MayNotMake { server })),
            None => {
                let make = format!(
                    "CREATE ROLE {role} LOGIN NOINHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION{password}"
                );
                run(&mut tx, make).await?;
                run(&mut tx, format!("COMMENT ON ROLE {role} IS '{}'", ROLE_COMMENT.replace('\'', "''")))
                    .await?;
            }
            Some(_) if self.is_operators => {}
            Some(comment) if comment.as_deref() != Some(ROLE_COMMENT) => {
                return Ok(Err(RoleError::NotOurs(self.name.clone())));
            }
            // The secret that the password is derived from may have changed.
            Some(_) if can_create_roles && !password.is_empty() => {
                run(&mut tx, format!("ALTER ROLE {role}{password}")).await?;
            }
            Some(_) => {}
        }
        if can_create_roles && !self.is_operators && can_limit_temp_files(&mut tx).await? {
            run(&mut tx, format!("ALTER ROLE {role} SET temp_file_limit = '{TEMP_FILE_LIMIT}'")).await?;
        }
        self.grant_rights(&mut tx, &role, can_create_roles).await?;
        tx.commit().await?;
        Ok(Ok(()))
    }

    async fn grant_rights(
        &self,
        tx: &mut PgConnection,
        role: &str,
        can_create_roles: bool,
    ) -> Result<(), sqlx::Error> {
        const IS_MEMBER: &str = "SELECT pg_has_role(current_user, $1, 'MEMBER')";
        let mut is_member: bool = sqlx::query_scalar(IS_MEMBER).bind(&self.name).fetch_one(&mut *tx).await?;
        if !is_member && can_create_roles {
            // Only a member of a role can make it the owner of a table. The server has all of its rights anyway.
            run(tx, format!("GRANT {role} TO CURRENT_USER")).await?;
            is_member = true;
        }
        for grant in [
            format!("GRANT USAGE ON SCHEMA {VIEW_SCHEMA} TO {role}"),
            format!("GRANT SELECT ON ALL TABLES IN SCHEMA {VIEW_SCHEMA} TO {role}"),
            format!("GRANT USAGE, CREATE ON SCHEMA {OWN_SCHEMA} TO {role}"),
        ] {
            run(tx, grant).await?;
        }
        // Tables that were created under the server's role.
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
            run(tx, sql).await?;
        }
        Ok(())
    }
}

/// Whether the server's role may set `temp_file_limit`: superusers may, and since PostgreSQL 15 roles with that grant.
async fn can_limit_temp_files(tx: &mut PgConnection) -> Result<bool, sqlx::Error> {
    const IS_SUPERUSER: &str = "SELECT rolsuper FROM pg_roles WHERE rolname = current_user";
    const MAY_SET: &str = "SELECT has_parameter_privilege('temp_file_limit', 'SET')";
    const GRANTS_PARAMETERS: i32 = 150_000;
    let version: i32 = sqlx::query_scalar("SELECT current_setting('server_version_num')::integer")
        .fetch_one(&mut *tx)
        .await?;
    let ask = if version >= GRANTS_PARAMETERS { MAY_SET } else { IS_SUPERUSER };
    sqlx::query_scalar(ask).fetch_one(tx).await
}

/// A query for a right of the session's role that it must not have, or that it lacks; NULL if there is none. Views and
/// functions of extensions are ignored: they are public, and check rights by themselves.
pub(super) fn role_check() -> String {
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
        assert_eq!(role_name("belvedere"), "belvedere_scripts");
        let (a, b) = (role_name(&"a".repeat(60)), role_name(&format!("{}b", "a".repeat(59))));
        assert!(a != b && a.len() <= MAX_NAME && b.len() <= MAX_NAME);
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    }

    #[test]
    fn an_address_names_another_role() {
        let server = PgConnectOptions::new_without_pgpass().username("belvedere").host("db");
        let of = |url: &str| Role::of(&ScriptRole::Given { url: url.to_owned() }, "x", &server);
        let role = of("postgres://lua:p%40ss@other:6000/x").unwrap().unwrap();
        assert_eq!((role.name(), role.options.get_host(), role.options.get_port()), ("lua", "other", 6000));
        for bad in ["postgres://belvedere:x@db/x", "postgres://db/x", "lua"] {
            assert!(matches!(of(bad), Err(RoleError::Address(_))), "{bad}");
        }
        assert!(Role::of(&ScriptRole::Guarded, "x", &server).unwrap().is_none());
        assert!(!format!("{:?}", of("postgres://lua:secret@db/x")).contains("secret"));
    }
}
