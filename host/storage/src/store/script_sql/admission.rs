//! Runs a script's statement at the expense of a tenant: a SELECT that has been cheap as a read by an index, everything else
//! as a scan.

use std::time::Instant;

use serde_json::Value;

use super::costs::{CHEAP_TIME_LIMIT, Costs};
use super::guard::{MAX_PARAMS, Parsed};
use super::{Answer, ScriptSqlError, execute};
use crate::store::Db;
use belvedere_web::fair_share::Tenant;

/// Runs one statement. `params` are texts, numbers, booleans and nulls.
///
/// # Errors
/// [`ScriptSqlError`].
pub async fn run(db: &Db, tenant: &Tenant, sql: &str, params: &[Value]) -> Result<Answer, ScriptSqlError> {
    let parsed = Parsed::new(sql, db.backend())?;
    if !parsed.is_select() {
        let _permit = db.scan_permit(tenant).await?;
        return Ok(Box::pin(execute(db, sql, parsed, params, None)).await?.0);
    }
    let costs = costs(db);
    if costs.is_cheap(tenant, sql, Instant::now()) {
        let _permit = db.read_permit(tenant).await?;
        match Box::pin(execute(db, sql, parsed, params, Some(CHEAP_TIME_LIMIT))).await {
            Err(ScriptSqlError::Overrun) => costs.note_overrun(tenant, sql, Instant::now()),
            Ok((answer, took)) => {
                costs.note(tenant, sql, took);
                return Ok(answer);
            }
            Err(error) => return Err(error),
        }
    }
    // Boxed: both are in the future of this call, and only one of them runs.
    let scan = || Box::pin(async { execute(db, sql, Parsed::new(sql, db.backend())?, params, None).await });
    let (answer, took) = db.scan(tenant, scan(), scan()).await?;
    costs.note(tenant, sql, took);
    Ok(answer)
}

/// Like [`run`], for a statement that must be a SELECT. `place` is named in the error for another.
///
/// # Errors
/// [`ScriptSqlError`].
pub async fn select(
    db: &Db,
    tenant: &Tenant,
    sql: &str,
    params: &[Value],
    place: &str,
) -> Result<Answer, ScriptSqlError> {
    Parsed::select(sql, db.backend(), place)?;
    run(db, tenant, sql, params).await
}

/// The plan of a SELECT that does not run, one row for each step. Takes the permit of a scan: planning many joins takes long.
///
/// # Errors
/// As [`select`].
pub async fn explain(
    db: &Db,
    tenant: &Tenant,
    sql: &str,
    params: &[Value],
    place: &str,
) -> Result<Answer, ScriptSqlError> {
    let parsed = Parsed::select(sql, db.backend(), place)?.explained();
    let _permit = db.scan_permit(tenant).await?;
    Ok(Box::pin(execute(db, sql, parsed, params, None)).await?.0)
}

/// The mistake in a statement that shows without its parameters: what [`run`] refuses to read, and for a SELECT a table, a
/// column or a function that does not exist. Takes the permit of a scan as [`explain`] does.
///
/// # Errors
/// When the statement can't be planned for a reason that is not its own.
pub async fn mistake(db: &Db, tenant: &Tenant, sql: &str) -> Result<Option<String>, ScriptSqlError> {
    let _permit = db.scan_permit(tenant).await?;
    // Some parameters must be texts, such as paths, and a text is no number.
    for value in [Value::Null, Value::String("a".to_owned())] {
        let parsed = match Parsed::new(sql, db.backend()) {
            Ok(parsed) if parsed.is_select() && parsed.parameters() <= MAX_PARAMS => parsed.explained(),
            Ok(_) => return Ok(None),
            Err(refused) => return Ok(Some(refused.to_string())),
        };
        let is_last = value.is_string() || parsed.parameters() == 0;
        let params = vec![value; parsed.parameters()];
        match Box::pin(execute(db, sql, parsed, &params, None)).await {
            Err(ScriptSqlError::Refused(_)) if !is_last => {}
            Err(ScriptSqlError::Refused(refused)) => return Ok(Some(refused.to_string())),
            // Other messages can be about the values of the parameters, which are not those of a run.
            Err(ScriptSqlError::Database(message)) => {
                return Ok(Some(message).filter(|text| names_missing(text)));
            }
            Err(error) => return Err(error),
            Ok(_) => return Ok(None),
        }
    }
    Ok(None)
}

/// Whether a database's message says that a table, a column or a function does not exist. PostgreSQL writes the same of an operator
/// between types, which may be those of the parameters.
fn names_missing(message: &str) -> bool {
    message.contains("no such ") || (message.contains("does not exist") && !message.starts_with("operator "))
}

fn costs(db: &Db) -> &Costs {
    match db {
        Db::Sqlite(db) => &db.script_costs,
        Db::Postgres(db) => &db.script_costs,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tokio::time::timeout;

    use super::super::MAX_READERS;
    use super::*;
    use crate::store::testing::{self, TestDb};

    /// Counts up to its parameter, which takes far longer than a cheap statement if that is a million.
    const COUNT: &str = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < $1) \
                         SELECT max(n) AS n FROM t";

    fn be_cheap(db: &Db, tenant: &Tenant, sql: &str) {
        for _ in 0..3 {
            costs(db).note(tenant, sql, Duration::ZERO);
        }
        assert!(costs(db).is_cheap(tenant, sql, Instant::now()));
    }

    /// Takes all connections of statements that are scans.
    async fn hold_connections(db: &Db) -> Vec<Box<dyn Send + '_>> {
        let mut held: Vec<Box<dyn Send>> = Vec::new();
        for _ in 0..MAX_READERS {
            match db {
                Db::Sqlite(db) => held.push(Box::new(db.script_sql.readers.get().await.unwrap())),
                Db::Postgres(db) => held.push(Box::new(db.script_sql.readers.get().await.unwrap())),
            }
        }
        held
    }

    async fn both() -> [TestDb; 2] {
        [testing::sqlite().await, testing::postgres().await]
    }

    #[tokio::test]
    async fn a_statement_that_turns_out_expensive_is_run_again_as_a_scan() {
        for db in both().await {
            let tenant = Tenant::client("a");
            be_cheap(&db, &tenant, COUNT);
            let answer = run(&db, &tenant, COUNT, &[json!(1_000_000)]).await.unwrap();
            assert_eq!(answer.rows, br#"[{"n":1000000}]"#);
            assert!(!costs(&db).is_cheap(&tenant, COUNT, Instant::now()));
            be_cheap(&db, &Tenant::client("b"), COUNT);
        }
    }

    #[tokio::test]
    async fn a_cheap_statement_waits_for_no_scan() {
        for db in both().await {
            let places = 0..db.scans().bounds().permits;
            let _held: Vec<_> =
                places.map(|n| db.scans().take(&Tenant::client(format!("holds {n}")), 1).unwrap()).collect();
            let _connections = hold_connections(&db).await;
            let mut answered = false;
            // On a busy machine a statement may exceed its limit; it then waits for the scan.
            for n in 0..20 {
                let tenant = Tenant::client(n.to_string());
                be_cheap(&db, &tenant, COUNT);
                let ran = timeout(Duration::from_secs(1), run(&db, &tenant, COUNT, &[json!(3)])).await;
                if let Ok(answer) = ran {
                    assert_eq!(answer.unwrap().rows, br#"[{"n":3}]"#);
                    answered = true;
                    break;
                }
            }
            assert!(answered);
            let (fresh, params) = (Tenant::client("fresh"), [json!(3)]);
            let waits = timeout(Duration::from_millis(100), run(&db, &fresh, COUNT, &params));
            assert!(waits.await.is_err(), "it is a scan, and the only place is held");
        }
    }
}
