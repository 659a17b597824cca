//! Scripts' SQL on PostgreSQL: connections that see the scripts' schemas, and read only unless an own table is written.

use futures_util::TryStreamExt;
use serde_json::Value;
use sqlx::postgres::{PgArguments, PgConnectOptions};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Column, Executor, PgConnection, Postgres, SqlSafeStr, Statement as _, TypeInfo};

use super::guard::{Kind, Statement};
use super::{
    Answer, Connections, Lane, MAX_ANSWER_BYTES, MAX_OWN_BYTES, MAX_OWN_RELATIONS, OWN_SCHEMA, READERS,
    RawError, Rows, STATEMENT_TIME, WRITERS,
};

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

impl Connections<PgConnection> {
    pub(in crate::store) fn new(options: &PgConnectOptions) -> Self {
        let timeout = format!("{}ms", STATEMENT_TIME.as_millis());
        let options = options.clone().options([
            ("search_path", OWN_SCHEMA),
            ("statement_timeout", &timeout),
            ("lock_timeout", LOCK_TIME),
            ("standard_conforming_strings", "on"),
            ("TimeZone", "UTC"),
        ]);
        let reader = options.clone().options([("default_transaction_read_only", "on")]);
        Self { readers: Lane::new(reader, READERS), writers: Lane::new(options, WRITERS) }
    }
}

pub(super) async fn run(
    connections: &Connections<PgConnection>,
    statement: &Statement,
    params: &[Value],
) -> Result<Answer, RawError> {
    let mut held = connections.get(statement.kind).await?;
    let result = match statement.kind {
        Kind::Select | Kind::Write { rows: true } => answer(&mut held, statement, params).await,
        Kind::Write { rows: false } | Kind::Define { .. } => execute(&mut held, statement, params).await,
    };
    match result {
        Err(RawError::Store(_) | RawError::TooManyRows | RawError::TooLarge) => {}
        _ => held.keep(),
    }
    result
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
    check_room(connection, statement.kind).await?;
    let done = bind(&statement.sql, statement, params).execute(&mut *connection).await?;
    Ok(Rows::default().finish(matches!(statement.kind, Kind::Write { .. }).then(|| done.rows_affected())))
}

async fn answer(
    connection: &mut PgConnection,
    statement: &Statement,
    params: &[Value],
) -> Result<Answer, RawError> {
    if statement.kind != Kind::Select {
        check_room(connection, statement.kind).await?;
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

/// Refuses to write when the own tables have all that they may have.
async fn check_room(connection: &mut PgConnection, kind: Kind) -> Result<(), RawError> {
    const ROOM: &str = "SELECT coalesce(sum(pg_relation_size(c.oid)), 0)::bigint, count(*) FROM pg_class c \
        JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind IN ('r', 'i', 't')";
    let (bytes, relations): (i64, i64) =
        sqlx::query_as(ROOM).bind(OWN_SCHEMA).fetch_one(&mut *connection).await?;
    if bytes as u64 >= MAX_OWN_BYTES && matches!(kind, Kind::Write { .. } | Kind::Define { makes: true }) {
        return Err(RawError::Full);
    }
    if relations >= MAX_OWN_RELATIONS && kind == (Kind::Define { makes: true }) {
        return Err(RawError::TooManyRelations);
    }
    Ok(())
}
