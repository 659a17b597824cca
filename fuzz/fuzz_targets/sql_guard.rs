#![no_main]

use belvedere_storage::store::Backend;
use belvedere_storage::store::script_sql::guard::{Catalog, check};
use libfuzzer_sys::fuzz_target;

/// The statement in lower case with its string literals emptied.
fn without_texts(sql: &str) -> String {
    // A quote within a literal is doubled, which reads as two adjacent literals here.
    sql.split('\'').step_by(2).collect::<Vec<_>>().join("''").to_ascii_lowercase()
}

// The guard rewrites each statement that it accepts. In the result every relation has a schema, or is a CTE of the
// statement, or a function from the list (in a SELECT of its own on PostgreSQL).
fuzz_target!(|data: &[u8]| {
    let Ok(sql) = std::str::from_utf8(data) else { return };
    let mut catalog = Catalog::default();
    catalog.add("script_x", "n", false);
    for backend in [Backend::Sqlite, Backend::Postgres] {
        let Ok(statement) = check(sql, &[], backend, &catalog) else { continue };
        let text = without_texts(&statement.sql);
        // Here FROM is part of an expression and is followed by a column, not a relation.
        if text.contains("distinct from") || text.contains("extract(") {
            continue;
        }
        for word in [" from ", " join ", "insert into ", "update "] {
            for (at, _) in text.match_indices(word) {
                let name = &text[at + word.len()..];
                let bare = name.starts_with(['"', '`']) && !name[1..].starts_with("cte_");
                assert!(!bare, "{sql:?} became {:?}", statement.sql);
            }
        }
    }
});
