//! Tests the PostgreSQL role of scripts' SQL: how it is created, its rights, and what happens without it.

use belvedere_standins::postgres;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::*;

use crate::store::Resources;
use crate::store::script_sql::ScriptIsolation;
use crate::store::script_sql::role::{RoleError, ScriptRole};

const OWN: ScriptRole = ScriptRole::Own { password: None };

async fn execute(url: &str, sql: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(&mut connection)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    connection.close().await.unwrap();
}

/// A database that belongs to a new role with given attributes, and is opened as that role. Dropping this drops the
/// database; the role remains until the test's PostgreSQL server ends.
struct OwnedDatabase {
    admin: String,
    url: String,
    role: String,
    scripts: String,
}

impl OwnedDatabase {
    async fn make(attributes: &str) -> Self {
        let admin = postgres::create_new_database().await;
        let name = admin.rsplit_once('/').unwrap().1.to_owned();
        let role = format!("{name}_owner");
        execute(&admin, &format!("CREATE ROLE {role} LOGIN NOSUPERUSER {attributes}")).await;
        execute(&admin, &format!("ALTER DATABASE {name} OWNER TO {role}")).await;
        let (scheme, rest) = admin.split_once("://").unwrap();
        let host = rest.split_once('@').map_or(rest, |(_, host)| host);
        Self { url: format!("{scheme}://{role}@{host}"), scripts: format!("{name}_scripts"), admin, role }
    }

    async fn open(&self, access: &ScriptRole) -> Db {
        let db = Db::open_with(&self.url, Resources::little(4), access).await.unwrap();
        db.migrate().await.unwrap();
        db
    }
}

impl Drop for OwnedDatabase {
    fn drop(&mut self) {
        postgres::drop_database(&self.admin);
    }
}

async fn owner_of(db: &Db, table: &str) -> String {
    let Db::Postgres(pool) = db else { unreachable!("the test opened PostgreSQL") };
    let sql =
        "SELECT r.rolname::text FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner WHERE c.relname = $1";
    sqlx::query_scalar(sql).bind(table).fetch_one(&pool.pool).await.unwrap()
}

#[tokio::test]
async fn a_server_that_can_create_roles_creates_it() {
    let owned = OwnedDatabase::make("CREATEROLE").await;
    let db = owned.open(&OWN).await;
    let walls = ScriptIsolation::GuardAndRole { name: owned.scripts.clone(), limits_temp_files: false };
    assert_eq!(script_sql::isolation(&db).await.unwrap(), walls);
    ask(&db, "CREATE TABLE script_x (n integer)", &[]).await.unwrap();
    assert_eq!(owner_of(&db, "script_x").await, owned.scripts);
    ask(&db, "INSERT INTO script_x VALUES (1)", &[]).await.unwrap();
    assert_eq!(rows(&db, "SELECT n FROM script_x", &[]).await, json!([{ "n": 1 }]));
    assert_eq!(rows(&db, "SELECT rkey FROM records", &[]).await, json!([]));
    ask(&db, "DROP TABLE script_x", &[]).await.unwrap();
    // Preparing it a second time, as each start does, changes nothing.
    db.prepare_script_role().await;
    assert_eq!(rows(&db, "SELECT rkey FROM records", &[]).await, json!([]));
    db.close().await;
}

#[tokio::test]
async fn temporary_files_are_bounded() {
    let owned = OwnedDatabase::make("CREATEROLE").await;
    let grant = format!("GRANT SET ON PARAMETER temp_file_limit TO {}", owned.role);
    execute(&owned.admin, &grant).await;
    let db = owned.open(&OWN).await;
    let walls = ScriptIsolation::GuardAndRole { name: owned.scripts.clone(), limits_temp_files: true };
    assert_eq!(script_sql::isolation(&db).await.unwrap(), walls);
    // A sort of 300 MB, and of a hundredth of it.
    let sort = async |rows: u32| {
        let sql = format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) \
             SELECT count(DISTINCT '{}' || i) FROM n",
            "x".repeat(3_000)
        );
        ask(&db, &sql, &[]).await
    };
    let refused = sort(100_000).await;
    assert!(matches!(refused, Err(ScriptSqlError::TemporaryFiles)), "{refused:?}");
    assert!(sort(1_000).await.is_ok());
    db.close().await;

    // When the server can no longer change roles, the existing role still works.
    execute(&owned.admin, &format!("ALTER ROLE {} NOCREATEROLE", owned.role)).await;
    let db = owned.open(&OWN).await;
    assert_eq!(script_sql::isolation(&db).await.unwrap(), walls);
    db.close().await;
}

#[tokio::test]
async fn without_the_role_db_raw_says_what_to_do() {
    let owned = OwnedDatabase::make("NOCREATEROLE").await;
    let db = owned.open(&OWN).await;
    let refused = error(&db, "SELECT rkey FROM records").await;
    assert!(matches!(refused, ScriptSqlError::RoleError(_)), "{refused:?}");
    assert!(refused.to_string().contains("belvedere doctor"), "{refused}");
    assert!(matches!(script_sql::isolation(&db).await, Err(ScriptSqlError::RoleError(_))));
    // Everything else still works.
    fill(&db).await;
    db.close().await;

    // The operator can accept the guard alone.
    let db = owned.open(&ScriptRole::Guarded).await;
    assert_eq!(script_sql::isolation(&db).await.unwrap(), ScriptIsolation::Guard);
    ask(&db, "CREATE TABLE script_x (n integer)", &[]).await.unwrap();
    assert_eq!(rows(&db, "SELECT count(*) AS n FROM records", &[]).await, json!([{ "n": 2 }]));
    assert_eq!(owner_of(&db, "script_x").await, owned.role);
    db.close().await;

    // Or create a role.
    let lua = format!("{}_lua", owned.role);
    execute(&owned.admin, &format!("CREATE ROLE {lua} LOGIN NOINHERIT; GRANT {lua} TO {}", owned.role)).await;
    let given = ScriptRole::Given { url: owned.url.replace(&format!("{}@", owned.role), &format!("{lua}@")) };
    let db = owned.open(&given).await;
    let walls = ScriptIsolation::GuardAndRole { name: lua.clone(), limits_temp_files: false };
    assert_eq!(script_sql::isolation(&db).await.unwrap(), walls);
    assert_eq!(owner_of(&db, "script_x").await, lua);
    ask(&db, "ALTER TABLE script_x ADD COLUMN m integer", &[]).await.unwrap();
    assert_eq!(rows(&db, "SELECT count(*) AS n FROM records", &[]).await, json!([{ "n": 2 }]));
    db.close().await;
}

#[tokio::test]
async fn a_role_with_excess_rights_is_not_used() {
    let owned = OwnedDatabase::make("CREATEROLE").await;
    let (name, scripts) = (owned.scripts.trim_end_matches("_scripts"), &owned.scripts);
    let db = owned.open(&OWN).await;
    db.close().await;
    for (give, take) in [
        ("GRANT SELECT ON api_keys TO {}", "REVOKE SELECT ON api_keys FROM {}"),
        ("GRANT SELECT (key_hash) ON api_keys TO PUBLIC", "REVOKE SELECT (key_hash) ON api_keys FROM PUBLIC"),
        ("GRANT DELETE ON records TO {}", "REVOKE DELETE ON records FROM {}"),
        ("GRANT pg_read_all_data TO {}", "REVOKE pg_read_all_data FROM {}"),
        ("ALTER ROLE {} CREATEROLE", "ALTER ROLE {} NOCREATEROLE"),
        ("ALTER ROLE {} SUPERUSER", "ALTER ROLE {} NOSUPERUSER"),
        ("GRANT CREATE ON SCHEMA public TO {}", "REVOKE CREATE ON SCHEMA public FROM {}"),
        ("GRANT CREATE ON DATABASE @ TO {}", "REVOKE CREATE ON DATABASE @ FROM {}"),
        (
            "GRANT EXECUTE ON FUNCTION pg_read_file(text) TO {}",
            "REVOKE EXECUTE ON FUNCTION pg_read_file(text) FROM {}",
        ),
        (
            "CREATE FUNCTION public.leak() RETURNS text LANGUAGE sql SECURITY DEFINER AS 'SELECT 1::text'",
            "DROP FUNCTION public.leak()",
        ),
    ] {
        let with_names = |sql: &str| sql.replace("{}", scripts).replace('@', name);
        execute(&owned.admin, &with_names(give)).await;
        let db = Db::open(&owned.url, 2).await.unwrap();
        let refused = error(&db, "SELECT rkey FROM records").await;
        assert!(matches!(refused, ScriptSqlError::RoleError(RoleError::Unfit { .. })), "{give}: {refused:?}");
        db.close().await;
        execute(&owned.admin, &with_names(take)).await;
    }
    let db = Db::open(&owned.url, 2).await.unwrap();
    assert_eq!(rows(&db, "SELECT rkey FROM records", &[]).await, json!([]));
    db.close().await;
}

#[tokio::test]
async fn an_existing_role_of_that_name_is_not_changed() {
    let owned = OwnedDatabase::make("CREATEROLE").await;
    execute(&owned.admin, &format!("CREATE ROLE {} LOGIN", owned.scripts)).await;
    let db = owned.open(&OWN).await;
    let Db::Postgres(pool) = &db else { unreachable!("the test opened PostgreSQL") };
    let sql = "SELECT has_schema_privilege($1, 'script_views', 'USAGE')";
    let may: bool = sqlx::query_scalar(sql).bind(&owned.scripts).fetch_one(&pool.pool).await.unwrap();
    assert!(!may);
    let refused = error(&db, "SELECT rkey FROM records").await;
    assert!(matches!(refused, ScriptSqlError::RoleError(_)), "{refused:?}");
    db.close().await;
}

/// The test's PostgreSQL server requires passwords only for the database `password_only`.
#[tokio::test]
async fn the_role_has_a_password() {
    let admin = postgres::create_new_database().await;
    let base = admin.rsplit_once('/').unwrap().0.to_owned();
    execute(&admin, "DROP DATABASE IF EXISTS password_only WITH (FORCE)").await;
    execute(&admin, "DROP ROLE IF EXISTS password_only_scripts").await;
    execute(&admin, "DROP ROLE IF EXISTS password_only").await;
    execute(&admin, "CREATE ROLE password_only LOGIN CREATEROLE PASSWORD 'of-the-server'").await;
    execute(&admin, "CREATE DATABASE password_only OWNER password_only").await;
    let host = base.split_once('@').unwrap().1.to_owned();
    let url = format!("postgres://password_only:of-the-server@{host}/password_only");
    assert!(
        Db::open(&url.replace("of-the-server", "wrong"), 1).await.is_err(),
        "the server requires passwords"
    );
    let open = async |password: &str| {
        let access = ScriptRole::Own { password: Some(password.to_owned()) };
        Db::open_with(&url, Resources::little(2), &access).await.unwrap()
    };
    let first = open("first").await;
    first.migrate().await.unwrap();
    assert_eq!(rows(&first, "SELECT rkey FROM records", &[]).await, json!([]));
    // A host with another secret can't log in until it has prepared the role.
    let second = open("second").await;
    assert!(matches!(
        error(&second, "SELECT 1").await,
        ScriptSqlError::RoleError(RoleError::Unusable { .. })
    ));
    second.prepare_script_role().await;
    assert_eq!(rows(&second, "SELECT rkey FROM records", &[]).await, json!([]));
    first.close().await;
    second.close().await;
    execute(&admin, "DROP DATABASE password_only WITH (FORCE)").await;
    postgres::drop_database(&admin);
}
