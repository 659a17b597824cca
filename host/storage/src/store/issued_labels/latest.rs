//! The latest labels of many subjects: walks an index in the order of the answer, a bounded number of rows at a time (ADR 134).

use sqlx::AssertSqlSafe;

use super::{COLUMNS, IssuedLabel};
use crate::store::labels::Label;
use crate::store::partitions::Partition;
use crate::store::reads::Reads;
use crate::store::{Db, StoreError, on};
use belvedere_web::fair_share::Tenant;

/// Rows of one statement.
const WALK: usize = 500;

/// Rows of one answer, many of which may have been replaced by later ones. A page may have fewer labels than its limit.
const MAX_WALKED: usize = 5_000;

/// Subjects of labels: one, or all whose URIs begin with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    Exact(String),
    Prefix(String),
}

impl Pattern {
    /// The range of URIs: from the first, up to the second without it. No URI has control characters.
    fn range(&self) -> (String, String) {
        match self {
            Self::Exact(uri) => (uri.clone(), format!("{uri}\u{1}")),
            Self::Prefix(prefix) => (prefix.clone(), format!("{prefix}\u{10ffff}")),
        }
    }
}

/// A page of the latest labels.
#[derive(Clone, Debug, Default)]
pub struct LatestLabels {
    pub labels: Vec<IssuedLabel>,
    /// The number of the label after which the next page begins; `None` on the last page.
    pub next: Option<i64>,
}

/// The place of a label in the order of the answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    uri: String,
    val: String,
    cid: String,
    seq: i64,
}

impl Place {
    fn of(IssuedLabel { seq, label: Label { uri, val, cid, .. }, .. }: &IssuedLabel) -> Self {
        let cid = cid.clone().unwrap_or_default();
        Self { uri: uri.clone(), val: val.clone(), cid, seq: *seq }
    }

    /// The place before all labels of a URI and those after it.
    fn before(uri: String) -> Self {
        Self { uri, val: String::new(), cid: String::new(), seq: 0 }
    }

    /// Whether a label at the other place replaces one at this.
    fn is_replaced_by(&self, next: &Self) -> bool {
        (&self.uri, &self.val, &self.cid) == (&next.uri, &next.val, &next.cid)
    }
}

/// The statement that reads the labels of a source within a range, in the order of the answer.
pub(in crate::store) fn walk_sql() -> String {
    format!(
        "SELECT {COLUMNS} FROM issued_labels l WHERE l.src = $1 AND (l.uri, l.val, coalesce(l.cid, ''), l.seq) > ($2, $3, $4, $5) \
             AND l.uri < $6 ORDER BY l.uri, l.val, coalesce(l.cid, ''), l.seq LIMIT $7"
    )
}

/// The latest label of each subject, value and version, of a source, in this order; at most `limit`. `after`: the number of the
/// label after which the page begins. Negations are among them: they say that a label is no longer in force. `None` when there
/// is no such label.
///
/// # Errors
/// [`StoreError::Busy`] and [`StoreError::TooSlow`]: a pattern may select all labels.
pub async fn latest(
    db: &Db,
    src: &str,
    patterns: &[Pattern],
    (after, limit): (Option<i64>, u32),
    tenant: &Tenant,
) -> Result<Option<LatestLabels>, StoreError> {
    let _permit = db.scan_permit(tenant).await?;
    let mut after = match after {
        None => Place::before(String::new()),
        Some(seq) => match label(db, src, seq).await? {
            Some(label) => Place::of(&label),
            None => return Ok(None),
        },
    };
    let (mut page, mut walked) = (LatestLabels::default(), 0);
    for (from, to) in ranges(patterns) {
        if after.uri >= to {
            continue;
        }
        after = after.max(Place::before(from));
        // One row more than is returned shows whether the last one is replaced.
        while let rows = walk(db, src, (&after, &to), WALK + 1).await?
            && !rows.is_empty()
        {
            let is_end = rows.len() <= WALK;
            let places: Vec<Place> = rows.iter().map(Place::of).collect();
            for (n, row) in rows.into_iter().take(WALK).enumerate() {
                let is_replaced = places.get(n + 1).is_some_and(|next| places[n].is_replaced_by(next));
                if is_replaced {
                    continue;
                }
                if page.labels.len() == limit as usize {
                    page.next = page.labels.last().map(|last| last.seq);
                    return Ok(Some(page));
                }
                page.labels.push(row);
            }
            walked += places.len().min(WALK);
            if is_end {
                break;
            }
            after = places[WALK - 1].clone();
            if walked >= MAX_WALKED {
                page.next = Some(after.seq);
                return Ok(Some(page));
            }
        }
    }
    Ok(Some(page))
}

/// The ranges of the patterns in order, without overlaps.
fn ranges(patterns: &[Pattern]) -> Vec<(String, String)> {
    let mut ranges: Vec<(String, String)> = patterns.iter().map(Pattern::range).collect();
    ranges.sort_unstable();
    let mut merged: Vec<(String, String)> = Vec::with_capacity(ranges.len());
    for (from, to) in ranges {
        match merged.last_mut() {
            Some((_, end)) if from < *end => *end = to.max(std::mem::take(end)),
            _ => merged.push((from, to)),
        }
    }
    merged
}

async fn label(db: &Db, src: &str, seq: i64) -> Result<Option<IssuedLabel>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM issued_labels l WHERE l.seq = $1 AND l.src = $2");
    Ok(on!(db, reader, |pool| {
        sqlx::query_as(AssertSqlSafe(sql)).bind(seq).bind(src).fetch_optional(pool).await
    })?)
}

async fn walk(
    db: &Db,
    src: &str,
    (after, to): (&Place, &str),
    limit: usize,
) -> Result<Vec<IssuedLabel>, StoreError> {
    let Place { uri, val, cid, seq } = after;
    macro_rules! fetch {
        ($db:expr) => {{
            let query = sqlx::query_as(AssertSqlSafe(walk_sql())).bind(src).bind(uri).bind(val).bind(cid);
            query
                .bind(seq)
                .bind(to)
                .bind(limit as i64)
                .fetch_all($db.pool_of(Partition::Whole, Reads::Scans).reads())
                .await?
        }};
    }
    Ok(match db {
        Db::Sqlite(db) => fetch!(db),
        Db::Postgres(db) => fetch!(db),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_in_order_and_do_not_overlap() {
        let text = |text: &str| text.to_owned();
        let found = ranges(&[
            Pattern::Exact(text("did:plc:b")),
            Pattern::Prefix(text("at://a/")),
            Pattern::Exact(text("at://a/b")),
            Pattern::Exact(text("did:plc:b")),
        ]);
        let expected =
            [(text("at://a/"), text("at://a/\u{10ffff}")), (text("did:plc:b"), text("did:plc:b\u{1}"))];
        assert_eq!(found, expected);
        assert_eq!(ranges(&[Pattern::Exact(text("x")), Pattern::Prefix(text(""))]).len(), 1);
        assert!(ranges(&[]).is_empty());
    }
}
