//! Writes the statement that sorts all matches of a search, or those among the candidates of its indexes.

use crate::query::Search;
use crate::query::path::Path;
use crate::store::fields::IndexKind;
use crate::store::intern::Collection;
use crate::store::select::{Accounts, By, Columns, Dialect, Placeholder, Sql, Value, escape};

use super::{rows_read, trigrams};

/// The patterns of a search.
#[derive(Clone, Copy)]
struct Patterns {
    exact: Placeholder,
    prefix: Placeholder,
    anywhere: Placeholder,
}

/// The comparison of a search with the texts of its fields.
struct Comparison {
    texts: Vec<String>,
    patterns: Patterns,
    /// The operator of the database.
    like: &'static str,
}

impl Comparison {
    fn is_like(&self, text: &str, pattern: Placeholder) -> String {
        format!("{text} {} {pattern} ESCAPE '\\'", self.like)
    }

    /// The condition that a field has the text.
    fn matches(&self) -> String {
        let each: Vec<_> = self.texts.iter().map(|text| self.is_like(text, self.patterns.anywhere)).collect();
        if each.len() == 1 { each.join("") } else { format!("({})", each.join(" OR ")) }
    }

    /// The value for the best match of a record: `of` makes it from the match's rank and its text.
    fn best(&self, of: impl Fn(usize, &str) -> String) -> String {
        let fields = self.texts.len();
        let Patterns { exact, prefix, anywhere } = self.patterns;
        let mut cases = Vec::with_capacity(3 * fields);
        for (kind, pattern) in [exact, prefix, anywhere].into_iter().enumerate() {
            for (n, text) in self.texts.iter().enumerate() {
                let value = of(kind * fields + n, text);
                // A record that was found matches in the last field if in no other.
                let is_last = kind == 2 && n + 1 == fields;
                cases.push(if is_last {
                    format!("ELSE {value}")
                } else {
                    format!("WHEN {} THEN {value}", self.is_like(text, pattern))
                });
            }
        }
        format!("CASE {} END", cases.join(" "))
    }
}

/// `indexes`: the search tables of all fields, to find candidates with, on SQLite.
pub(super) fn compile<D: Dialect>(collection: Collection, args: &Search, indexes: Option<&[i64]>) -> Sql {
    let mut sql = Sql::new();
    let escaped = escape(&args.text);
    let patterns = Patterns {
        exact: sql.bind(Value::Text(escaped.clone())),
        prefix: sql.bind(Value::Text(format!("{escaped}%"))),
        anywhere: sql.bind(Value::Text(format!("%{escaped}%"))),
    };
    let text = |field: &Path| D::text("r.record", field);
    let search = Comparison { texts: args.fields.iter().map(text).collect(), patterns, like: D::LIKE };
    let limit = sql.bind(Value::Integer(rows_read(args)));
    sql.push(format_args!("SELECT {}", D::columns(Columns::Row)));
    if let Some(indexes) = indexes {
        let pattern = sql.bind(Value::Text(trigrams(&args.text)));
        let candidates: Vec<_> = indexes
            .iter()
            .map(|index| {
                let name = IndexKind::Search.index_name(*index);
                format!("SELECT rowid AS id FROM {name} WHERE {name} MATCH {pattern}")
            })
            .collect();
        sql.push(format_args!(
            " FROM ({}) f CROSS JOIN records r CROSS JOIN dids d \
             WHERE r.id = f.id AND d.id = r.did_id AND d.status = 0",
            candidates.join(" UNION ")
        ));
    } else {
        D::from(&mut sql, collection, By::Time, Accounts::VisibleJoined);
    }
    sql.push(format_args!(" AND r.collection_id = {} AND {}", collection.id, search.matches()));
    let rank = search.best(|rank, _| rank.to_string());
    let key = match &search.texts[..] {
        [text] => D::folded(text),
        _ => search.best(|_, text| D::folded(text)),
    };
    if let Some(after) = &args.after {
        let after_rank = sql.bind(Value::Integer(i64::from(after.rank)));
        let after_key = sql.bind(Value::Text(after.key.clone()));
        let after_id = sql.bind(Value::Integer(after.id));
        sql.push(format_args!(" AND ({rank}, {key}, r.id) > ({after_rank}, {after_key}, {after_id})"));
    }
    sql.push(format_args!(" ORDER BY {rank}, {key}, r.id LIMIT {limit}"));
    sql
}
