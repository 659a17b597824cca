//! Tests of parameters, size limits, and random texts.

use proptest::prelude::*;
use serde_json::json;

use super::super::*;
use super::{BOTH, catalog, on, written};

#[test]
fn parameters_are_bound_or_written() {
    let params = [json!("a'b"), json!(-5), json!(null), json!(true), json!(1.5)];
    let sql =
        "SELECT * FROM records WHERE did = $1 AND $2 < 3 AND $3 IS NULL AND $4 AND $5 > 1 AND rkey = $1";
    let sqlite = check(sql, &params, Backend::Sqlite, &catalog()).unwrap();
    assert_eq!(sqlite.binds, [0, 1, 3, 4]);
    assert!(
        sqlite.sql.contains("(NULL IS NULL)") && sqlite.sql.ends_with("(`t1`.`rkey` = $1))"),
        "{}",
        sqlite.sql
    );
    let postgres = check(sql, &params, Backend::Postgres, &catalog()).unwrap();
    assert_eq!(postgres.binds, [0]);
    assert!(postgres.sql.contains("((-5) < 3)") && postgres.sql.contains("((1.5) > 1)"), "{}", postgres.sql);

    let question =
        check("SELECT ? + ? LIMIT ?", &[json!("1"), json!("2"), json!("3")], Backend::Sqlite, &catalog())
            .unwrap();
    assert_eq!(question.sql, "SELECT ($1 + $2) LIMIT $3");
    let wrong = |sql: &str, params: &[Value]| check(sql, params, Backend::Sqlite, &catalog()).unwrap_err();
    assert_eq!(wrong("SELECT $2", &[json!(1)]), GuardError::Parameters { has: 2, given: 1 });
    assert_eq!(wrong("SELECT $1", &[json!(1), json!(2)]), GuardError::Parameters { has: 1, given: 2 });
    assert_eq!(wrong("SELECT $1", &[json!([1])]), GuardError::Parameter);
    assert!(matches!(wrong("SELECT $1, ?", &[json!(1), json!(2)]), GuardError::Unsupported(_)));
    assert!(check("SELECT $0", &[], Backend::Sqlite, &catalog()).is_err());
}

#[test]
fn size_and_depth_are_bounded() {
    let deep = |open: &str, close: &str, n: usize| format!("SELECT {}1{}", open.repeat(n), close.repeat(n));
    let chain = |op: &str, n: usize| format!("SELECT 1{}", format!(" {op} 1").repeat(n));
    for backend in BOTH {
        for sql in [
            deep("(", ")", 5_000),
            deep("(SELECT ", ")", 200),
            deep("NOT ", "", 3_000),
            deep("- ", "", 2_400),
            chain("+", 1_200),
            chain("AND", 3_000),
            chain("||", 1_200),
            format!("SELECT '{}'", "x".repeat(MAX_BYTES)),
            format!("SELECT 1{}", " UNION SELECT 1".repeat(600)),
            format!("SELECT {}", vec!["CASE WHEN 1 THEN "; 300].join("")),
        ] {
            assert!(on(backend, &sql).is_err(), "{}…", &sql[..40]);
        }
        written(backend, &chain("AND", 100));
        written(backend, &deep("(", ")", 10));
    }
    assert!(on(Backend::Sqlite, &format!("SELECT 1{}", " GLOB 1".repeat(1_200))).is_err());
}

proptest! {
    #[test]
    fn any_text_is_refused_or_gives_a_statement(sql in "[ -~\u{a0}-\u{ff}]{0,60}") {
        for backend in BOTH {
            if let Ok(statement) = on(backend, &sql) {
                prop_assert!(!statement.sql.is_empty());
            }
        }
    }

    #[test]
    fn random_words_of_sql_name_no_other_table(words in prop::collection::vec(
        prop::sample::select(vec!["SELECT", "*", "FROM", "records", "api_keys", "users", "(", ")", ",", "WITH", "AS", "a",
            "JOIN", "ON", "1", "=", "WHERE", "IN", "UNION", "EXISTS", "'x'", "pg_sleep", "\"api_keys\"", ".", "RETURNING",
            "INSERT", "INTO", "script_x", "VALUES", "UPDATE", "SET", "DELETE", ";", "--", "/*", "*/", "\n"]), 1..24)) {
        let sql = words.join(" ");
        for backend in BOTH {
            if let Ok(statement) = on(backend, &sql) {
                for name in ["api_keys", "users"] {
                    // The name of a column or an alias is harmless.
                    for before in ["FROM ", "JOIN ", "INTO ", "UPDATE "] {
                        for quote in ["\"", "`", ""] {
                            let found = format!("{before}{quote}{name}");
                            prop_assert!(!statement.sql.contains(&found), "{}: {}", sql, statement.sql);
                        }
                    }
                }
            }
        }
    }
}
