//! Scripts' SQL on PostgreSQL: connections that see the scripts' schemas, and read only unless an own table is written.

use futures_util::TryStreamExt;
use serde_json::Value;
use sqlx::postgres::{PgArguments, PgConnectOptions};
use sqlx::query::Query;
use sqlx::{
    AssertSqlSafe, Column, Connection as _, Executor, PgConnection, Postgres, SqlSafeStr, Statement as _,
    TypeInfo,
};

use super::guard::{Kind, Parsed, Statement};
use super::role::{self, NoRole, Role};
use super::{
    Answer, Connections, Lane, MAX_ANSWER_BYTES, MAX_OWN_BYTES, MAX_OWN_RELATIONS, OWN_SCHEMA, READERS,
    RawError, Rows, STATEMENT_TIME, VIEW_SCHEMA, WRITERS,
};
use crate::store::lane::Offence;

/// What an own table may wait for another script's lock.
const LOCK_TIME: &str = "2s";
/// Types that `row_to_json` writes as a number, a boolean or a plain text. Others become text first: JSON too, so that
/// it is text on both databases.
const PLAIN: [&str; 16] = [
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

/// How often the server looks whether the caller of a running statement is still there.
const CALLER_CHECK: &str = "250ms";
/// Memory of one sort or hash table of a statement. There may be several; each goes to disk beyond that.
const WORK_MEMORY: &str = "4MB";

impl Connections<PgConnection> {
    /// `options` are those of the scripts' role, with what it is to prove, or else the server's own.
    pub(in crate::store) fn new(options: &PgConnectOptions, role: Option<&Role>) -> Self {
        let timeout = format!("{}ms", STATEMENT_TIME.as_millis());
        let options = role.map_or(options, |role| &role.options).clone().options([
            ("search_path", "pg_catalog"),
            ("statement_timeout", &timeout),
            ("lock_timeout", LOCK_TIME),
            ("standard_conforming_strings", "on"),
            ("TimeZone", "UTC"),
            ("client_connection_check_interval", CALLER_CHECK),
            ("work_mem", WORK_MEMORY),
            ("hash_mem_multiplier", "1"),
            ("max_parallel_workers_per_gather", "0"),
        ]);
        let reader = options.clone().options([("default_transaction_read_only", "on")]);
        let proof = role.map(|_| role::proof());
        Self {
            readers: Lane::new(reader, READERS).proving(proof.clone()),
            writers: Lane::new(options, WRITERS).proving(proof),
        }
    }
}

pub(super) async fn run(
    connections: &Connections<PgConnection>,
    parsed: &Parsed,
    params: &[Value],
    role: &Result<Option<Role>, NoRole>,
) -> Result<Answer, RawError> {
    let name = match role {
        Ok(role) => role.as_ref().map_or("", Role::name),
        Err(no_role) => return Err(RawError::NoRole(no_role.clone())),
    };
    let mut held = connections.get(parsed).await.map_err(|error| without_role(error, name))?;
    let result = if parsed.own_tables().is_empty() || !(parsed.is_select() || parsed.is_write()) {
        run_on(&mut held, parsed, params).await
    } else {
        // The tables that it names stay as they are from when their columns are read.
        let mut tx = held.begin().await?;
        let result = run_on(&mut tx, parsed, params).await;
        match &result {
            Ok(_) => tx.commit().await?,
            // The rest of the rows is not waited for.
            Err(error) if leaves_doubt(error) => drop(tx),
            Err(_) => tx.rollback().await?,
        }
        result
    };
    if !result.as_ref().is_err_and(leaves_doubt) {
        held.keep();
    }
    result
}

/// Whether a connection can't be used again after an error.
fn leaves_doubt(error: &RawError) -> bool {
    matches!(error, RawError::Store(_) | RawError::TooManyRows | RawError::TooLarge)
}

async fn run_on(
    connection: &mut PgConnection,
    parsed: &Parsed,
    params: &[Value],
) -> Result<Answer, RawError> {
    let columns = columns(connection, parsed.own_tables()).await?;
    let statement = super::resolve(parsed, params, columns)?;
    match statement.kind {
        Kind::Select | Kind::Write { rows: true } => answer(connection, &statement, params).await,
        Kind::Write { rows: false } | Kind::Define { .. } => execute(connection, &statement, params).await,
    }
}

/// The columns of own tables, which stay as they are until the transaction ends.
async fn columns(
    connection: &mut PgConnection,
    tables: &[String],
) -> Result<Vec<(String, String)>, RawError> {
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let sql = format!("SELECT table_name, column_name FROM {VIEW_SCHEMA}.own_columns($1)");
    Ok(sqlx::query_as(AssertSqlSafe(sql)).persistent(false).bind(tables).fetch_all(connection).await?)
}

/// Why there is no connection, if it is because of the role.
fn without_role(error: sqlx::Error, role: &str) -> RawError {
    // Classes of "may not log in", and "may not connect".
    const REFUSED: [&str; 3] = ["28000", "28P01", "42501"];
    let role = role.to_owned();
    match &error {
        sqlx::Error::Configuration(offence) if offence.is::<Offence>() => {
            RawError::NoRole(NoRole::Unfit { role, offence: offence.to_string() })
        }
        sqlx::Error::Database(refused)
            if !role.is_empty() && refused.code().is_some_and(|code| REFUSED.contains(&&*code)) =>
        {
            RawError::NoRole(NoRole::Unusable { role, reason: refused.message().to_owned() })
        }
        _ => error.into(),
    }
}

/// Connects once as the role, to see whether it may do what it should and no more. Tells whether the temporary files of
/// its statements are bounded.
pub(in crate::store) async fn try_role(
    connections: &Connections<PgConnection>,
    role: &Role,
) -> Result<bool, RawError> {
    const IS_BOUNDED: &str = "SELECT current_setting('temp_file_limit') <> '-1'";
    let mut held = connections.readers.get().await.map_err(|error| without_role(error, role.name()))?;
    let is_bounded = sqlx::query_scalar(IS_BOUNDED).fetch_one(&mut *held).await?;
    held.keep();
    Ok(is_bounded)
}

fn bind<'q>(sql: &'q str, statement: &Statement, params: &'q [Value]) -> Query<'q, Postgres, PgArguments> {
    let mut query = sqlx::query(AssertSqlSafe(sql)).persistent(false);
    for place in &statement.binds {
        // The guard writes everything else into the statement.
        query = query.bind(params[*place].as_str());
    }
    query
}

async fn execute(
    connection: &mut PgConnection,
    statement: &Statement,
    params: &[Value],
) -> Result<Answer, RawError> {
    Room::of(connection).await?.admit(statement.kind)?;
    let done = bind(&statement.sql, statement, params).execute(&mut *connection).await?;
    Ok(Rows::default().finish(matches!(statement.kind, Kind::Write { .. }).then(|| done.rows_affected())))
}

async fn answer(
    connection: &mut PgConnection,
    statement: &Statement,
    params: &[Value],
) -> Result<Answer, RawError> {
    if statement.kind != Kind::Select {
        Room::of(connection).await?.admit(statement.kind)?;
    }
    let described = (&mut *connection).prepare(AssertSqlSafe(statement.sql.as_str()).into_sql_str()).await?;
    let columns: Vec<(String, bool)> = described
        .columns()
        .iter()
        .map(|column| {
            let plain = PLAIN.contains(&column.type_info().name());
            (column.name().replace('"', "\"\""), plain)
        })
        .collect();
    if columns.is_empty() {
        return Err(RawError::Database("the statement gives no columns".to_owned()));
    }
    let names: Vec<String> = (0..columns.len()).map(|n| format!("c{n}")).collect();
    let shown: Vec<String> = columns
        .iter()
        .zip(&names)
        .map(|((name, plain), c)| format!("{c}{} AS \"{name}\"", if *plain { "" } else { "::text" }))
        .collect();
    // A row of a gigabyte must not get here, so its size is looked at over there.
    let sql = format!(
        "WITH q ({}) AS ({}) SELECT CASE WHEN octet_length(t) <= {MAX_ANSWER_BYTES} THEN t END \
         FROM (SELECT json_strip_nulls(row_to_json(r))::text AS t FROM (SELECT {} FROM q) r) x",
        names.join(", "),
        statement.sql,
        shown.join(", "),
    );
    let mut rows = Rows::default();
    let mut query = sqlx::query_scalar::<_, Option<String>>(AssertSqlSafe(sql.as_str())).persistent(false);
    for place in &statement.binds {
        query = query.bind(params[*place].as_str());
    }
    let mut texts = query.fetch(&mut *connection);
    while let Some(text) = texts.try_next().await? {
        rows.add(|out| {
            out.extend_from_slice(text.ok_or(RawError::TooLarge)?.as_bytes());
            Ok(())
        })?;
    }
    let changed = matches!(statement.kind, Kind::Write { .. }).then_some(rows.count as u64);
    Ok(rows.finish(changed))
}

/// What the own tables have.
#[derive(Clone, Copy, Debug)]
struct Room {
    bytes: i64,
    /// Tables and their indexes.
    relations: i64,
}

impl Room {
    async fn of(connection: &mut PgConnection) -> Result<Self, RawError> {
        // A table's own size leaves out its large values, which lie in a table of PostgreSQL's beside it.
        const ROOM: &str = "SELECT coalesce(sum(pg_total_relation_size(c.oid)) FILTER (WHERE c.relkind = 'r'), 0)::bigint, \
            count(*) FROM pg_class c \
            JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind IN ('r', 'i')";
        let (bytes, relations) = sqlx::query_as(ROOM).bind(OWN_SCHEMA).fetch_one(connection).await?;
        Ok(Self { bytes, relations })
    }

    /// Refuses to write when they have all that they may have.
    fn admit(self, kind: Kind) -> Result<(), RawError> {
        let makes = kind == (Kind::Define { makes: true });
        if self.bytes as u64 >= MAX_OWN_BYTES && (makes || matches!(kind, Kind::Write { .. })) {
            return Err(RawError::Full);
        }
        if self.relations >= MAX_OWN_RELATIONS && makes {
            return Err(RawError::TooManyRelations);
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
    async fn large_values_count_against_the_room_of_own_tables() {
        const LARGE: i64 = 5_000_000;
        let url = postgres::create_database().await;
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
        let room = Room::of(&mut connection).await.unwrap();
        assert!(room.bytes > LARGE && room.relations == 1, "{room:?}");
        drop(connection);
        db.close().await;
        postgres::drop_database(&url);
    }

    #[test]
    fn full_tables_can_be_emptied_and_not_filled() {
        let (free, full) =
            (Room { bytes: 0, relations: 1 }, Room { bytes: MAX_OWN_BYTES as i64, relations: 1 });
        let many = Room { bytes: 0, relations: MAX_OWN_RELATIONS };
        let (write, make) = (Kind::Write { rows: false }, Kind::Define { makes: true });
        for kind in [write, make, Kind::Select, Kind::Define { makes: false }] {
            assert!(free.admit(kind).is_ok(), "{kind:?}");
        }
        assert!(matches!(full.admit(write), Err(RawError::Full)));
        assert!(matches!(full.admit(make), Err(RawError::Full)));
        assert!(full.admit(Kind::Define { makes: false }).is_ok(), "a table can still be dropped");
        assert!(matches!(many.admit(make), Err(RawError::TooManyRelations)));
        assert!(many.admit(write).is_ok());
    }
}
