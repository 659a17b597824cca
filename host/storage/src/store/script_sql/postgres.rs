//! Runs scripts' SQL on PostgreSQL. The connections are read-only, except the one for statements that write own tables.

use std::time::Duration;

use futures_util::TryStreamExt;
use serde_json::Value;
use sqlx::postgres::{PgArguments, PgConnectOptions};
use sqlx::query::Query;
use sqlx::{
    AssertSqlSafe, Column, Connection as _, Executor, PgConnection, Postgres, SqlSafeStr, Statement as _,
    TypeInfo,
};

use super::guard::{Kind, Parsed, Statement};
use super::plan;
use super::role::{self, Role, RoleError};
use super::{
    Answer, Connections, MAX_ANSWER_BYTES, MAX_CHEAP, MAX_OWN_BYTES, MAX_OWN_RELATIONS, MAX_READERS,
    MAX_WRITERS, OWN_SCHEMA, OwnColumn, ReadPool, Rows, STATEMENT_TIME_LIMIT, ScriptSqlError, VIEW_SCHEMA,
    timed, write_json_member,
};
use crate::store::Backend;
use crate::store::executor::ConnectionPool as _;
use crate::store::read_pool::{CONNECTION_CHECK_INTERVAL, ExcessPrivilege};

/// Longest wait of a statement for another statement's lock on an own table.
const LOCK_TIMEOUT: &str = "2s";
/// Types of JSON values.
const JSON_TYPES: [&str; 2] = ["JSON", "JSONB"];
/// Types that `row_to_json` writes as a number, a boolean or plain text. Values of other types are cast to text before.
const PLAIN_TYPES: [&str; 16] = [
    "BOOL",
    "INT2",
    "INT4",
    "INT8",
    "FLOAT4",
    "FLOAT8",
    "NUMERIC",
    "TEXT",
    "VARCHAR",
    "CHAR",
    "NAME",
    "DATE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "UUID",
];

/// Memory of one sort or hash table; larger ones use temporary files. A statement may have several.
const WORK_MEM: &str = "4MB";

impl Connections<PgConnection> {
    /// Creates the connections of `role`, which each verify its privileges. Without a role they use the server's own
    /// `options`.
    pub(in crate::store) fn new(options: &PgConnectOptions, role: Option<&Role>) -> Self {
        let timeout = format!("{}ms", STATEMENT_TIME_LIMIT.as_millis());
        let options = role.map_or(options, |role| &role.options).clone().options([
            ("search_path", "pg_catalog"),
            ("statement_timeout", &timeout),
            ("lock_timeout", LOCK_TIMEOUT),
            ("standard_conforming_strings", "on"),
            ("TimeZone", "UTC"),
            ("client_connection_check_interval", CONNECTION_CHECK_INTERVAL),
            ("work_mem", WORK_MEM),
            // Joins of records and their references are planned for each partition. Otherwise the cost of a look-up is
            // that in all partitions, and the planner reads the tables instead.
            ("enable_partitionwise_join", "on"),
            ("hash_mem_multiplier", "1"),
            ("max_parallel_workers_per_gather", "0"),
        ]);
        let reader = options.clone().options([("default_transaction_read_only", "on")]);
        let check = role.map(|_| role::role_check());
        Self {
            readers: ReadPool::new(reader.clone(), MAX_READERS).role_check(check.clone()),
            cheap: ReadPool::new(reader, MAX_CHEAP).role_check(check.clone()),
            writers: ReadPool::new(options, MAX_WRITERS).role_check(check),
        }
    }
}

/// Runs a statement. A SELECT whose connection was lost runs once more.
pub(super) async fn run(
    connections: &Connections<PgConnection>,
    sql: &str,
    parsed: Parsed,
    params: &[Value],
    role: &Result<Option<Role>, RoleError>,
    time_limit: Option<Duration>,
) -> Result<(Answer, Duration), ScriptSqlError> {
    let name = match role {
        Ok(role) => role.as_ref().map_or("", Role::name),
        Err(no_role) => return Err(ScriptSqlError::RoleError(no_role.clone())),
    };
    let runs_again = parsed.is_select() && !parsed.is_explained();
    match attempt(connections, parsed, params, name, time_limit).await {
        Err(ScriptSqlError::Store(error)) if runs_again && error.is_lost_connection() => {
            connections.readers.lost();
            connections.cheap.lost();
            attempt(connections, Parsed::new(sql, Backend::Postgres)?, params, name, time_limit).await
        }
        result => result,
    }
}

async fn attempt(
    connections: &Connections<PgConnection>,
    parsed: Parsed,
    params: &[Value],
    name: &str,
    time_limit: Option<Duration>,
) -> Result<(Answer, Duration), ScriptSqlError> {
    let mut pooled = connections.get(&parsed, time_limit).await.map_err(|error| role_error(error, name))?;
    let result = if parsed.own_tables().is_empty() || !(parsed.is_select() || parsed.is_write()) {
        timed(time_limit, run_on(&mut pooled, parsed, params)).await
    } else {
        // `own_columns` locks the tables until the transaction ends, so their columns can't change in between.
        let mut tx = pooled.begin().await?;
        let result = timed(time_limit, run_on(&mut tx, parsed, params)).await;
        match &result {
            Ok(_) => tx.commit().await?,
            // A rollback would first read the remaining rows.
            Err(error) if must_close_connection(error) => drop(tx),
            Err(_) => tx.rollback().await?,
        }
        result
    };
    if !result.as_ref().is_err_and(must_close_connection) {
        pooled.keep();
    }
    result
}

/// Whether the connection can't be reused after this error.
fn must_close_connection(error: &ScriptSqlError) -> bool {
    matches!(
        error,
        ScriptSqlError::Store(_)
            | ScriptSqlError::Overrun
            | ScriptSqlError::TooManyRows
            | ScriptSqlError::TooLarge
    )
}

async fn run_on(
    connection: &mut PgConnection,
    parsed: Parsed,
    params: &[Value],
) -> Result<Answer, ScriptSqlError> {
    let columns = own_columns(connection, parsed.own_tables()).await?;
    let statement = super::resolve(parsed, params, columns)?;
    match statement.kind {
        Kind::Explain => {
            plan::of_postgres(&bind(&statement.sql, &statement, params).fetch_all(connection).await?)
        }
        Kind::Select | Kind::Write { rows: true } => answer(connection, &statement, params).await,
        Kind::Write { rows: false } | Kind::Define { .. } => execute(connection, &statement, params).await,
    }
}

/// The columns of own tables. Locks the tables until the transaction ends. None is marked as JSON: the types of the
/// result's columns say so.
async fn own_columns(
    connection: &mut PgConnection,
    tables: &[String],
) -> Result<Vec<OwnColumn>, ScriptSqlError> {
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let sql = format!("SELECT table_name, column_name, false FROM {VIEW_SCHEMA}.own_columns($1)");
    Ok(sqlx::query_as(AssertSqlSafe(sql)).persistent(false).bind(tables).fetch_all(connection).await?)
}

/// Converts a connect error: to [`ScriptSqlError::RoleError`] if the role is the cause.
fn role_error(error: sqlx::Error, role: &str) -> ScriptSqlError {
    // invalid_authorization_specification, invalid_password, insufficient_privilege.
    const REFUSED: [&str; 3] = ["28000", "28P01", "42501"];
    let role = role.to_owned();
    match &error {
        sqlx::Error::Configuration(excess) if excess.is::<ExcessPrivilege>() => {
            ScriptSqlError::RoleError(RoleError::Unfit { role, excess: excess.to_string() })
        }
        sqlx::Error::Database(refused)
            if !role.is_empty() && refused.code().is_some_and(|code| REFUSED.contains(&&*code)) =>
        {
            ScriptSqlError::RoleError(RoleError::Unusable { role, reason: refused.message().to_owned() })
        }
        _ => error.into(),
    }
}

/// Connects as the role, which verifies its privileges. Returns whether the temporary files of its statements are
/// limited.
pub(in crate::store) async fn try_role(
    connections: &Connections<PgConnection>,
    role: &Role,
) -> Result<bool, ScriptSqlError> {
    const IS_BOUNDED: &str = "SELECT current_setting('temp_file_limit') <> '-1'";
    let mut pooled = connections.readers.get().await.map_err(|error| role_error(error, role.name()))?;
    let is_bounded = sqlx::query_scalar(IS_BOUNDED).fetch_one(&mut *pooled).await?;
    pooled.keep();
    Ok(is_bounded)
}

fn bind<'q>(sql: &'q str, statement: &Statement, params: &'q [Value]) -> Query<'q, Postgres, PgArguments> {
    let mut query = sqlx::query(AssertSqlSafe(sql)).persistent(false);
    for index in &statement.binds {
        // Only texts are bound: the guard writes all other values as literals.
        query = query.bind(params[*index].as_str());
    }
    query
}

async fn execute(
    connection: &mut PgConnection,
    statement: &Statement,
    params: &[Value],
) -> Result<Answer, ScriptSqlError> {
    Usage::read(connection).await?.check(statement.kind)?;
    let done = bind(&statement.sql, statement, params).execute(&mut *connection).await?;
    Ok(Rows::default().finish(matches!(statement.kind, Kind::Write { .. }).then(|| done.rows_affected())))
}

async fn answer(
    connection: &mut PgConnection,
    statement: &Statement,
    params: &[Value],
) -> Result<Answer, ScriptSqlError> {
    if statement.kind != Kind::Select {
        Usage::read(connection).await?.check(statement.kind)?;
    }
    let described = (&mut *connection).prepare(AssertSqlSafe(statement.sql.as_str()).into_sql_str()).await?;
    let columns: Vec<Shown> = described
        .columns()
        .iter()
        .enumerate()
        .map(|(index, column)| Shown::new(index, column.name(), column.type_info().name(), &statement.json))
        .collect();
    if columns.is_empty() {
        return Err(ScriptSqlError::Database("the statement returns no columns".to_owned()));
    }
    let json_names: Vec<&str> = columns.iter().filter(|c| c.is_json).map(|c| c.name.as_str()).collect();
    let sql = rows_as_json(&statement.sql, &columns);
    let mut rows = Rows { columns: columns.iter().map(|c| c.name.clone()).collect(), ..Rows::default() };
    let mut query = sqlx::query_as::<_, (Option<String>, Vec<Option<String>>)>(AssertSqlSafe(sql.as_str()))
        .persistent(false);
    for index in &statement.binds {
        query = query.bind(params[*index].as_str());
    }
    let mut found = query.fetch(&mut *connection);
    while let Some((plain, json)) = found.try_next().await? {
        let plain = plain.ok_or(ScriptSqlError::TooLarge)?;
        rows.add(|out| {
            out.extend_from_slice(plain.strip_suffix('}').unwrap_or(&plain).as_bytes());
            for (name, text) in json_names.iter().zip(&json) {
                if let Some(text) = text {
                    write_json_member(out, name, text)?;
                }
            }
            out.push(b'}');
            Ok(())
        })?;
    }
    let changed = matches!(statement.kind, Kind::Write { .. }).then_some(rows.count as u64);
    Ok(rows.finish(changed))
}

/// A column of a result.
struct Shown {
    name: String,
    /// Its name in the statement that reads the rows.
    alias: String,
    /// Whether `row_to_json` may write it.
    is_plain: bool,
    is_json: bool,
}

impl Shown {
    fn new(index: usize, name: &str, type_name: &str, json: &[bool]) -> Self {
        Self {
            name: name.to_owned(),
            alias: format!("c{index}"),
            is_plain: PLAIN_TYPES.contains(&type_name),
            is_json: JSON_TYPES.contains(&type_name) || json.get(index) == Some(&true),
        }
    }
}

/// The statement that reads the rows: for each the columns that are not JSON as the text of an object without NULLs, and
/// an array of the texts of the others, which may contain nulls of their own. PostgreSQL checks the size, so that a row of
/// up to a gigabyte is never sent: a larger one is NULL.
fn rows_as_json(sql: &str, columns: &[Shown]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.alias.as_str()).collect();
    let (json, others): (Vec<&Shown>, Vec<&Shown>) = columns.iter().partition(|column| column.is_json);
    let plain: Vec<String> = others
        .iter()
        .map(|Shown { name, alias, is_plain, .. }| {
            let cast = if *is_plain { "" } else { "::text" };
            format!("{alias}{cast} AS \"{}\"", name.replace('"', "\"\""))
        })
        .collect();
    let texts: Vec<String> = json.iter().map(|column| format!("{}::text", column.alias)).collect();
    format!(
        "WITH q ({}) AS ({sql}) SELECT CASE WHEN fits THEN t END, CASE WHEN fits THEN j ELSE '{{}}' END \
         FROM (SELECT t, j, octet_length(t) + coalesce(octet_length(array_to_string(j, '')), 0) <= {MAX_ANSWER_BYTES} AS fits \
             FROM (SELECT json_strip_nulls(row_to_json(r.*))::text AS t, ARRAY[{}]::text[] AS j \
                 FROM q, LATERAL (SELECT {}) r) x) y",
        names.join(", "),
        texts.join(", "),
        plain.join(", "),
    )
}

/// The size and number of the scripts' own tables.
#[derive(Clone, Copy, Debug)]
struct Usage {
    bytes: i64,
    /// Tables and their indexes.
    relations: i64,
}

impl Usage {
    async fn read(connection: &mut PgConnection) -> Result<Self, ScriptSqlError> {
        // The total size includes TOAST tables, which hold large values.
        const USAGE: &str = "SELECT coalesce(sum(pg_total_relation_size(c.oid)) FILTER (WHERE c.relkind = 'r'), 0)::bigint, \
            count(*) FROM pg_class c \
            JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind IN ('r', 'i')";
        let (bytes, relations) = sqlx::query_as(USAGE).bind(OWN_SCHEMA).fetch_one(connection).await?;
        Ok(Self { bytes, relations })
    }

    /// Rejects a statement that would grow the own tables when they have reached a limit.
    fn check(self, kind: Kind) -> Result<(), ScriptSqlError> {
        let creates = kind == (Kind::Define { creates: true });
        if self.bytes as u64 >= MAX_OWN_BYTES && (creates || matches!(kind, Kind::Write { .. })) {
            return Err(ScriptSqlError::Full);
        }
        if self.relations >= MAX_OWN_RELATIONS && creates {
            return Err(ScriptSqlError::TooManyRelations);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use belvedere_standins::postgres;

    use super::*;
    use crate::store::Db;

    #[tokio::test]
    async fn large_values_count_against_the_limit_of_own_tables() {
        const LARGE: i64 = 5_000_000;
        let url = postgres::create_new_database().await;
        let Db::Postgres(db) = Db::open(&url, 1).await.unwrap() else { panic!("{url} is PostgreSQL") };
        let mut connection = db.pool.acquire().await.unwrap();
        for sql in [
            format!("CREATE SCHEMA {OWN_SCHEMA}"),
            format!("CREATE TABLE {OWN_SCHEMA}.script_x (t text)"),
            format!("ALTER TABLE {OWN_SCHEMA}.script_x ALTER t SET STORAGE EXTERNAL"),
            format!("INSERT INTO {OWN_SCHEMA}.script_x VALUES (repeat('x', {LARGE}))"),
        ] {
            connection.execute(AssertSqlSafe(sql)).await.unwrap();
        }
        let usage = Usage::read(&mut connection).await.unwrap();
        assert!(usage.bytes > LARGE && usage.relations == 1, "{usage:?}");
        drop(connection);
        db.close().await;
        postgres::drop_database(&url);
    }

    #[test]
    fn full_tables_can_be_emptied_and_not_filled() {
        let (free, full) =
            (Usage { bytes: 0, relations: 1 }, Usage { bytes: MAX_OWN_BYTES as i64, relations: 1 });
        let many = Usage { bytes: 0, relations: MAX_OWN_RELATIONS };
        let (write, make) = (Kind::Write { rows: false }, Kind::Define { creates: true });
        for kind in [write, make, Kind::Select, Kind::Define { creates: false }] {
            assert!(free.check(kind).is_ok(), "{kind:?}");
        }
        assert!(matches!(full.check(write), Err(ScriptSqlError::Full)));
        assert!(matches!(full.check(make), Err(ScriptSqlError::Full)));
        assert!(full.check(Kind::Define { creates: false }).is_ok(), "a table can still be dropped");
        assert!(matches!(many.check(make), Err(ScriptSqlError::TooManyRelations)));
        assert!(many.check(write).is_ok());
    }
}
