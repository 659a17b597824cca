#![no_main]

use belvedere::store::Backend;
use belvedere::store::script_sql::guard::{Catalog, check};
use libfuzzer_sys::fuzz_target;

/// The statement without its texts.
fn without_texts(sql: &str) -> String {
    // A quote within a text is doubled: two texts that touch, as far as this goes.
    sql.split('\'').step_by(2).collect::<Vec<_>>().join("''").to_ascii_lowercase()
}

// What passes is written anew. In it every relation has a schema in front, is one of the statement's own, or a function
// from the list (in a SELECT of its own on PostgreSQL).
fuzz_target!(|data: &[u8]| {
    let Ok(sql) = std::str::from_utf8(data) else { return };
    let mut catalog = Catalog::default();
    catalog.add("script_x", "n");
    for backend in [Backend::Sqlite, Backend::Postgres] {
        let Ok(statement) = check(sql, &[], backend, &catalog) else { continue };
        let text = without_texts(&statement.sql);
        // Where FROM is part of an expression, a column follows.
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
