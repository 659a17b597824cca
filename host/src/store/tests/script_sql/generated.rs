//! Runs some hundred generated statements: none of them reveals the content of another table. The fuzz target
//! `script_sql` does the same without a limit.

use belvedere_standins::sql_statements::{Choices, SECRET};

use super::*;

/// Number of statements per database. They take some seconds.
const STATEMENTS: u64 = 800;
/// Number of bytes from which a statement is generated.
const BYTES: usize = 160;

/// Bytes that depend only on the seed (SplitMix64).
fn bytes(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as u8
    };
    (0..BYTES).map(|_| next()).collect()
}

on_both! {
    async fn statements_of_a_grammar_find_no_secret(db) {
        assert_eq!(SECRET, CANARY);
        fill(&db).await;
        plant_canary(&db).await;
        ask(&db, "CREATE TABLE script_own (x text, n integer)", &[]).await.unwrap();
        ask(&db, "INSERT INTO script_own VALUES ('a', 1), ('b', 2)", &[]).await.unwrap();
        let mut answered = 0;
        for seed in 0..STATEMENTS {
            let sql = Choices::new(&bytes(seed)).statement();
            let params = if sql.contains("$1") { vec![json!("x")] } else { Vec::new() };
            match ask(&db, &sql, &params).await {
                Ok(answer) => {
                    answered += 1;
                    let rows = String::from_utf8_lossy(&answer.rows);
                    assert!(!rows.contains(SECRET), "{seed}: {sql}\n{rows}");
                }
                Err(error) => {
                    assert!(!matches!(error, ScriptSqlError::Store(_) | ScriptSqlError::RoleError(_)), "{seed}: {sql}\n{error:?}");
                    assert!(!error.to_string().contains(SECRET), "{seed}: {sql}\n{error}");
                }
            }
        }
        assert!(answered > STATEMENTS / 50, "only {answered} statements got past the guard");
    }
}
