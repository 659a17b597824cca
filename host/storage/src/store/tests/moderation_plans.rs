//! The statements of moderation and of the labels of this instance walk an index: none scans or sorts a table.

use sqlx::{AssertSqlSafe, Row};

use super::fixtures::*;

use crate::store::issued_labels::latest::walk_sql;
use crate::store::issued_labels::{self, LATEST};
use crate::store::labels::Label;
use crate::store::moderation::{
    self, Action, Decision, EXPIRED, Moderated, ModerationFilter, Subject, active_on_sql, list_sql,
};
use crate::store::records::hidden;
use crate::store::records::moderated::list_sql as hidden_list_sql;
use crate::store::testing::{TestDb, postgres, sqlite};
use crate::store::{Backend, Db};
use belvedere_base::clock::Timestamp;

/// A value of a parameter.
const SUBJECT: &str = "'at://did:plc:x/a.b.c/d'";

/// Decisions on records, of which each third is lifted, and labels.
async fn fill(db: &TestDb) {
    for n in 0..300_u32 {
        let note = uri(n % 20, NOTE, &format!("r{n}"));
        apply(db, i64::from(n), vec![put(&note, 1, r#"{"n":1}"#)]).await;
        let expires_at = (n % 10 == 0).then_some(Timestamp(9_000));
        let (action, reason) = (Action::Takedown, "spam".to_owned());
        let by = "did:plc:op".to_owned();
        let subject = Subject::Record(note);
        let decision = Decision { subject, action, reason, by, expires_at, replaces: None };
        let made = moderation::moderate(db, &decision, Timestamp(500)).await.unwrap();
        let Moderated::Made(row) = made else { panic!("{made:?}") };
        if n % 3 == 0 {
            moderation::lift(db, row.id, None, None, Timestamp(600)).await.unwrap();
        }
    }
    let labels: Vec<Label> = (0..3_000)
        .map(|n| Label {
            uri: format!("at://did:plc:{}/a.b.c/{n}", n % 50),
            src: format!("did:web:{}.example", n % 2),
            val: "spam".to_owned(),
            cid: None,
            neg: false,
            cts: Timestamp(n),
            exp: None,
        })
        .collect();
    issued_labels::issue(db, &labels, "did:plc:op", Timestamp(9_000)).await.unwrap();
}

/// The statements, each with the SQL of its parameters' values, and the index that it walks.
fn statements(backend: Backend) -> Vec<(String, &'static [&'static str], &'static str)> {
    let filter = |active, subject: Option<&str>| ModerationFilter {
        active,
        subject: subject.map(str::to_owned),
        ..ModerationFilter::default()
    };
    let (primary, by_key) = match backend {
        Backend::Sqlite => ("INTEGER PRIMARY KEY", "SEARCH h USING"),
        Backend::Postgres => ("_pkey", "hidden_records"),
    };
    let subjects: &[&str] = match backend {
        Backend::Sqlite => &[r#"'["did:plc:x","did:plc:y"]'"#],
        Backend::Postgres => &["'{did:plc:x,did:plc:y}'::text[]"],
    };
    let page: &[&str] = &["99", "20", "NULL", "NULL"];
    let about: &[&str] = &["99", "20", SUBJECT, "NULL"];
    let place: &[&str] = &["1", "99", "99", "'r1'", "20", "NULL", "NULL"];
    let of_account: &[&str] = &["1", "99", "99", "'r1'", "20", "'did:plc:x'", "NULL"];
    let of_record: &[&str] = &["1", "99", "99", "'r1'", "20", "'did:plc:x'", "'r1'"];
    let range: &[&str] = &["'did:web:1.example'", "'at://'", "''", "''", "0", "'at://did:plc:x'", "501"];
    let latest: &[&str] = &["'at://did:plc:x/a.b.c/d'", "'spam'", "'did:web:1.example'", "NULL"];
    vec![
        (list_sql(&filter(None, None)), page, primary),
        (list_sql(&filter(Some(true), None)), page, "moderation_open"),
        (list_sql(&filter(None, Some(SUBJECT))), about, "moderation_subject"),
        (active_on_sql(backend), subjects, "moderation_active"),
        (EXPIRED.to_owned(), &["9000", "100"], "moderation_expiry"),
        (hidden_list_sql(false, false), place, "hidden_records_list"),
        (hidden_list_sql(true, false), of_account, "hidden_records_list_did"),
        (hidden_list_sql(true, true), of_record, by_key),
        (hidden::MODERATED.to_owned(), &["1", "'did:plc:x'", "'r1'"], by_key),
        (walk_sql(), range, "issued_labels_walk"),
        (LATEST.to_owned(), latest, "issued_labels_"),
        (issued_labels::after_sql(), &["5", "'did:web:1.example'", "100"], primary),
        (issued_labels::list_sql(false), &["99", "20", "NULL"], primary),
        (issued_labels::list_sql(true), &["99", "20", SUBJECT], "issued_labels_subject"),
    ]
}

/// The statement with values in place of its parameters, the last first, because `$1` is the beginning of `$10`.
pub(super) fn with_values(sql: &str, values: &[&str]) -> String {
    let numbered = values.iter().enumerate().rev();
    numbered.fold(sql.to_owned(), |sql, (n, value)| sql.replace(&format!("${}", n + 1), value))
}

pub(super) async fn plan(db: &Db, sql: &str) -> String {
    let rows: Vec<String> = match db {
        Db::Sqlite(db) => {
            let sql = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
            let rows = sqlx::query(sql).fetch_all(&db.reader).await.unwrap();
            rows.iter().map(|row| row.get(3)).collect()
        }
        Db::Postgres(db) => {
            let mut conn = db.pool.acquire().await.unwrap();
            // The tables of the test are small.
            for setting in ["enable_seqscan", "enable_bitmapscan"] {
                sqlx::query(AssertSqlSafe(format!("SET {setting} = off"))).execute(&mut *conn).await.unwrap();
            }
            let sql = AssertSqlSafe(format!("EXPLAIN {sql}"));
            let rows = sqlx::query(sql).fetch_all(&mut *conn).await.unwrap();
            rows.iter().map(|row| row.get(0)).collect()
        }
    };
    rows.join("\n")
}

async fn check(db: &TestDb) {
    for (sql, values, index) in statements(db.backend()) {
        let plan = plan(db, &with_values(&sql, values)).await;
        assert!(plan.contains(index), "{index}: {sql}\n{plan}");
        for bad in ["TEMP B-TREE", "Sort", "Seq Scan"] {
            assert!(!plan.contains(bad), "{bad}: {sql}\n{plan}");
        }
        // A scan of SQLite without an index reads the whole table; the list of subjects is a table too.
        let scans = plan.lines().filter(|line| line.contains("SCAN") && !line.contains("json_each"));
        assert_eq!(scans.filter(|line| !line.contains("USING INDEX")).count(), 0, "{sql}\n{plan}");
    }
}

#[tokio::test]
async fn sqlite_walks_indexes() {
    let db = sqlite().await;
    check(&db).await;
    fill(&db).await;
    check(&db).await;
}

#[tokio::test]
async fn postgres_walks_indexes() {
    let db = postgres().await;
    fill(&db).await;
    if let Db::Postgres(db) = &*db {
        sqlx::query("ANALYZE").execute(&db.pool).await.unwrap();
    }
    check(&db).await;
}
