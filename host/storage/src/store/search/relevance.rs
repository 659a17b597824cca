//! Computes the position of a record in the results of a search, as the statements order them.

use serde_json::Value;

use crate::query::path::{Path, Step};
use crate::query::sort::MAX_TEXT_CHARS;
use crate::query::{Relevance, Search};
use crate::store::records::RecordRow;

/// The position of a result; `None` for a record that does not match, which no result is.
pub(super) fn of(row: &RecordRow, args: &Search) -> Option<Relevance> {
    let record: Value = serde_json::from_slice(&row.record).ok()?;
    let wanted = args.text.to_ascii_lowercase();
    let ranked = args.fields.iter().enumerate().filter_map(|(n, field)| {
        let text = text_at(&record, field)?.to_ascii_lowercase();
        let kind = if text == wanted {
            0
        } else if text.starts_with(&wanted) {
            1
        } else if text.contains(&wanted) {
            2
        } else {
            return None;
        };
        Some((kind * args.fields.len() + n, text))
    });
    let (rank, text) = ranked.min_by_key(|(rank, _)| *rank)?;
    let key = text.chars().take(MAX_TEXT_CHARS).collect();
    Some(Relevance { rank: u8::try_from(rank).ok()?, key, id: row.id })
}

fn text_at<'a>(record: &'a Value, field: &Path) -> Option<&'a str> {
    let found = field.steps().iter().try_fold(record, |value, step| match step {
        Step::Key(key) => value.as_object()?.get(key),
        Step::Index(index) => value.as_array()?.get(*index as usize),
    });
    // SQLite's functions end a text at U+0000, and PostgreSQL stores none.
    found?.as_str()?.split('\0').next()
}
