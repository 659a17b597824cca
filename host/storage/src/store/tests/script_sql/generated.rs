//! Runs some hundred generated statements. Hostile ones don't reveal the content of another table (the fuzz target
//! `script_sql` does the same without a limit), and portable ones have the same answer on both databases.

use crate::store::testing::TestDb;
use belvedere_standins::sql_statements::hostile::{SECRET, statement};
use belvedere_standins::sql_statements::{bytes, portable};

use super::*;
use crate::store::testing;

/// Number of statements per database. They take some seconds.
const STATEMENTS: u64 = 800;
/// Number of bytes from which a statement is generated.
const BYTES: usize = 160;

on_both!(statements_of_a_grammar_find_no_secret);

async fn statements_of_a_grammar_find_no_secret(db: TestDb) {
    assert_eq!(SECRET, CANARY);
    fill(&db).await;
    plant_canary(&db).await;
    ask(&db, "CREATE TABLE script_own (x text, n integer)", &[]).await.unwrap();
    ask(&db, "INSERT INTO script_own VALUES ('a', 1), ('b', 2)", &[]).await.unwrap();
    let mut answered = 0;
    for seed in 0..STATEMENTS {
        let sql = statement(&bytes(seed, BYTES));
        let params = if sql.contains("$1") { vec![json!("x")] } else { Vec::new() };
        match ask(&db, &sql, &params).await {
            Ok(answer) => {
                answered += 1;
                let rows = String::from_utf8_lossy(&answer.rows);
                assert!(!rows.contains(SECRET), "{seed}: {sql}\n{rows}");
            }
            Err(error) => {
                assert!(
                    !matches!(error, ScriptSqlError::Store(_) | ScriptSqlError::RoleError(_)),
                    "{seed}: {sql}\n{error:?}"
                );
                assert!(!error.to_string().contains(SECRET), "{seed}: {sql}\n{error}");
            }
        }
    }
    assert!(answered > STATEMENTS / 50, "only {answered} statements got past the guard");
}

/// Number of statements that are compared.
const COMPARED: u64 = 1_500;

/// An answer as it is on both databases: booleans are 1 and 0 on SQLite, and a sum may be a float or have more digits.
fn normal(value: Value) -> Value {
    match value {
        Value::Bool(b) => json!(i64::from(b) as f64),
        Value::Number(n) => json!(n.as_f64().map(|n| (n * 1e6).round() / 1e6)),
        Value::Array(items) => items.into_iter().map(normal).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, normal(value))).collect(),
        other => other,
    }
}

/// The answer to a statement, and for one that writes the table's content after it.
async fn answer_of(db: &Db, statement: &portable::Statement) -> Result<Value, ScriptSqlError> {
    if statement.writes {
        ask(db, "DELETE FROM script_own", &[]).await?;
        ask(db, portable::ROWS, &[]).await?;
    }
    let params = [json!("b"), json!(3)];
    let used = if statement.sql.contains("$2") { 2 } else { usize::from(statement.sql.contains("$1")) };
    let answer = ask(db, &statement.sql, &params[..used]).await?;
    let rows = if statement.writes {
        json!([answer.changed, rows(db, portable::CONTENT, &[]).await])
    } else {
        serde_json::from_slice(&answer.rows).expect("rows are JSON")
    };
    Ok(normal(rows))
}

#[tokio::test]
async fn portable_statements_have_the_same_answer_on_both() {
    let (sqlite, postgres) = (testing::sqlite().await, testing::postgres().await);
    for db in [&sqlite, &postgres] {
        fill(db).await;
        ask(db, portable::TABLE, &[]).await.unwrap();
        ask(db, portable::ROWS, &[]).await.unwrap();
    }
    let mut different = Vec::new();
    let mut with_rows = 0;
    for seed in 0..COMPARED {
        let statement = portable::statement(&bytes(seed, BYTES));
        let answers = (answer_of(&sqlite, &statement).await, answer_of(&postgres, &statement).await);
        match answers {
            (Ok(one), Ok(other)) if one == other => with_rows += u64::from(one != json!([])),
            (one, other) => different.push(format!("{seed}: {}\n  {one:?}\n  {other:?}", statement.sql)),
        }
    }
    assert!(different.is_empty(), "{} of {COMPARED} differ:\n{}", different.len(), different.join("\n"));
    assert!(with_rows > COMPARED / 2, "only {with_rows} statements have rows");
}
